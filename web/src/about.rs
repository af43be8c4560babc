//! About the page: what it is, and under which licences its parts and the loaded models are.

use crate::live;
use crate::state::page;
use leptos::html::Dialog;
use leptos::prelude::*;

/// The dialog.
#[component]
pub fn About() -> impl IntoView {
    let page = page();
    let dialog = NodeRef::<Dialog>::new();
    Effect::new(move |_| {
        let Some(dialog) = dialog.get() else { return };
        match (page.about.get(), dialog.open()) {
            // Fails only for a dialog that is not in the page.
            (true, false) => drop(dialog.show_modal()),
            (false, true) => dialog.close(),
            _ => {}
        }
    });
    let models = move || {
        let loaded = page.live.loaded();
        if loaded.is_empty() {
            return view! { <p class="muted">"None is loaded. A model's licence is shown before it is loaded, and here."</p> }.into_any();
        }
        loaded
            .into_iter()
            .map(|(_, model)| {
                view! { <p><b><bdi>{model.name.clone()}</bdi></b>", "<bdi>{model.label.clone()}</bdi>": "{live::licence(model.licence.as_ref())}</p> }
            })
            .collect_view()
            .into_any()
    };
    view! {
        <dialog class="help about-page" node_ref=dialog aria-labelledby="about-title" data-testid="about-dialog" on:close=move |_| page.about.set(false)>
            <div class="bar"><h2 id="about-title">"About"</h2><button class="btn right" on:click=move |_| page.about.set(false)>"Close "<kbd>"Esc"</kbd></button></div>
            <div class="about-body">
                <p>"One agent trajectory, two wire formats, every token explained, and a model in the tab that continues either. Everything runs in this browser; nothing is sent anywhere but to where you load models from."</p>
                <h3>"What this browser keeps"</h3>
                <p>"Your work (the trajectory and what is shown of it, four tabs at most), the theme and settings, models that you keep, and the page itself for use without a network. "<button class="btn" data-testid="about-kept" on:click=move |_| { page.about.set(false); page.share.open.set(true); }>"See or forget kept work"</button></p>
                <h3>"This program"</h3>
                <p>"MIT or Apache-2.0, as you choose: "<a href="licences/LICENSE-MIT.txt">"MIT"</a>", "<a href="licences/LICENSE-APACHE.txt">"Apache-2.0"</a>". "<a href="licences/rust-crates.txt">"Licences of the libraries"</a>" in it."</p>
                <h3>"Data"</h3>
                <p>"Ids and pieces are those of the Llama 3.1 tokenizer. "<b>"Built with Llama"</b>". "<a href="licences/llama-vocabulary.txt">"Licence of the vocabulary"</a>". The samples belong to this program. "<a href="licences/README.txt">"Which file is what"</a>"."</p>
                <h3>"Loaded models"</h3>
                {models}
                <p class="muted">"Models belong to those who made them. What they may be used for is in their licences, not in that of this program."</p>
            </div>
        </dialog>
    }
}
