//! What is said beside the page. Nothing here needs an answer, nothing takes the focus.

use crate::icons;
use crate::share::{Notice, go_back, offline, start_over};
use crate::state::page;
use leptos::prelude::*;

/// The notices.
#[component]
pub fn Notices() -> impl IntoView {
    let page = page();
    let share = page.share;
    let close = move |_| share.notice.set(None);
    let restart = move || view! { <button class="btn" data-testid="start-over" on:click=move |_| start_over(page)>"Start with the sample"</button> };
    let back = move || {
        let newest = share.kept.read().first().cloned()?;
        Some(
            view! { <button class="btn" data-testid="go-back" on:click=move |_| go_back(page, newest.clone())>"Go back to it"</button> },
        )
    };
    let said = move || {
        share.notice.get().map(|notice| {
            let (id, body) = match notice {
                Notice::Restored => (
                    "restored",
                    view! { <p><b>"Restored from your last visit."</b></p><p class="acts">{restart()}</p> }.into_any(),
                ),
                Notice::Linked(true) => (
                    "linked",
                    view! { <p><b>"Opened from a link."</b>" What you had before is kept."</p><p class="acts">{back()}</p> }.into_any(),
                ),
                Notice::Linked(false) => (
                    "linked",
                    view! { <p><b>"Opened from a link."</b></p> }.into_any(),
                ),
                Notice::StartedOver => (
                    "started-over",
                    view! { <p><b>"This is the sample."</b>" What you had before is kept."</p><p class="acts">{back()}</p> }.into_any(),
                ),
                Notice::Trouble(what, why) => (
                    "trouble",
                    view! { <p><b>{what}</b>" "{why}</p> }.into_any(),
                ),
            };
            view! {
                <div class="notice" data-testid="notice" data-notice=id>
                    <div>{body}</div>
                    <button class="btn quiet" aria-label="Close the notice" on:click=close>{icons::cross()}</button>
                </div>
            }
        })
    };
    let newer = move || {
        share.newer.get().then(|| view! {
            <div class="notice" data-testid="newer">
                <div><p><b>"A new version of this page is ready."</b>" Your work is kept."</p>
                    <p class="acts"><button class="btn" data-testid="use-newer" on:click=move |_| offline::use_newer(page)>"Load it"</button></p></div>
                <button class="btn quiet" aria-label="Later" on:click=move |_| share.newer.set(false)>{icons::cross()}</button>
            </div>
        })
    };
    view! { <div class="notices" role="status">{said}{newer}</div> }
}
