//! Asking the hub from a browser.

use super::{Info, Listing, ListingError, MAX_LISTING_BYTES, Repo};
use crate::source::{AbortHandle, ByteSource, HttpSource, SourceError, Token, WebFolder};

/// A repository whose files can be read.
#[derive(Debug)]
pub struct Hub {
    /// The repository, at a commit.
    pub repo: Repo,
    /// Its files.
    pub listing: Listing,
    /// Its files as a folder, with their sizes.
    pub folder: WebFolder,
}

/// Why a repository cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// The hub does not let us in.
    #[error(
        "{repo} cannot be read: it is private or gated, or there is no such repository. Accept its terms at \
         {page}, then give an access token that may read it; it is kept in memory only and sent to the hub \
         alone"
    )]
    Closed {
        /// The repository.
        repo: String,
        /// Its page.
        page: String,
    },
    /// A token was sent, and the hub does not accept it.
    #[error(
        "the access token does not open {repo}: it may be mistyped or expired, or the terms at {page} are \
         not accepted yet, or the token is not allowed to read gated repositories"
    )]
    Token {
        /// The repository.
        repo: String,
        /// Its page.
        page: String,
    },
    /// There is no such repository or revision.
    #[error("there is no {repo} on the hub; check the name and the revision")]
    Missing {
        /// The repository.
        repo: String,
    },
    /// The answer is not what the hub sends.
    #[error(transparent)]
    Listing(#[from] ListingError),
    /// The hub could not be asked.
    #[error(transparent)]
    Source(SourceError),
}

/// Asks the hub at `host` (usually [`super::HOST`]) for a repository's commit and files.
///
/// # Errors
/// [`HubError`], with what to do.
pub async fn open(
    host: &str,
    repo: &Repo,
    token: Option<Token>,
    abort: AbortHandle,
) -> Result<Hub, HubError> {
    let ask = async |url: String, repo: &Repo| {
        let mut source = HttpSource::with(url, token.as_ref(), abort.clone(), None);
        source
            .read_whole(MAX_LISTING_BYTES)
            .await
            .map_err(|error| refusal(host, repo, token.is_some(), error))
    };
    let info = Info::parse(&ask(repo.info_url(host), repo).await?)?;
    let repo = Repo {
        revision: info.commit.unwrap_or_else(|| repo.revision.clone()),
        ..repo.clone()
    };
    let listing = Listing::parse(&ask(repo.tree_url(host), &repo).await?)?;
    let files = listing.files.iter();
    let files: Vec<_> = files
        .map(|file| (file.path.clone(), Some(file.size)))
        .collect();
    let folder = WebFolder::new(repo.files_url(host), abort.clone())
        .named(repo.id())
        .with_token(token.clone())
        .with_listing(files);
    Ok(Hub {
        repo,
        listing,
        folder,
    })
}

fn refusal(host: &str, repo: &Repo, with_token: bool, error: SourceError) -> HubError {
    let (name, page) = (repo.to_string(), repo.page(host));
    match error {
        SourceError::Status {
            status: 401 | 403, ..
        } if with_token => HubError::Token { repo: name, page },
        SourceError::Status {
            status: 401 | 403, ..
        } => HubError::Closed { repo: name, page },
        error if error.is_missing() => HubError::Missing { repo: name },
        error => HubError::Source(error),
    }
}
