//! Generation as the loops see it.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// What to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Ids to continue.
    pub prompt: &'a [u32],
    /// Ids that end the output; the one that did is part of it.
    pub stops: &'a [u32],
    /// Most ids to generate.
    pub max_new_tokens: usize,
}

/// Something that continues ids: a model in a worker, or a script.
pub trait Generator {
    /// Why it cannot.
    type Error;

    /// The new ids, with the stop id if one ended them.
    fn generate(
        &mut self,
        request: Request<'_>,
    ) -> impl Future<Output = Result<Vec<u32>, Self::Error>>;
}

/// A function that needs no waiting, as a [`Generator`].
pub struct Blocking<F>(pub F);

impl<F, E> Generator for Blocking<F>
where
    F: FnMut(Request<'_>) -> Result<Vec<u32>, E>,
{
    type Error = E;

    async fn generate(&mut self, request: Request<'_>) -> Result<Vec<u32>, E> {
        (self.0)(request)
    }
}

/// The output of a future that needs no waiting, as a loop's does over a [`Blocking`] generator.
/// `None` when it does need to wait.
pub fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
