//! The help: every key, and what the looks mean.

use crate::controls::Toggle;
use crate::state::page;
use leptos::html::Dialog;
use leptos::prelude::*;

const KEYS: &[(&str, &str)] = &[
    ("← →", "previous, next token"),
    ("↑ ↓", "previous, next frame"),
    ("Home End", "first, last token of the frame"),
    ("X", "same frame on the other side"),
    ("P", "pin what is lit up"),
    ("M", "mask: show what is trained"),
    ("I", "token ids"),
    ("R", "run both sides to their answers"),
    ("G", "generate one step"),
    ("H", "heat: probabilities of written tokens"),
    ("B", "branch from a written token"),
    ("1 2 3 4", "frames, wire, tokens, live"),
    ("Enter", "edit the focused frame"),
    ("Alt ↑ ↓", "move the focused frame"),
    ("A D K", "add after it, duplicate it, change its kind"),
    ("Del", "delete the focused frame"),
    ("Ctrl Z", "undo; with Shift: redo"),
    ("Ctrl Enter", "close the editor of a frame"),
    ("Esc", "stop a run, else let go of the pin"),
    ("?", "this help"),
];

/// The dialog.
#[component]
pub fn Help() -> impl IntoView {
    let page = page();
    let dialog = NodeRef::<Dialog>::new();
    Effect::new(move |_| {
        let Some(dialog) = dialog.get() else { return };
        match (page.help.get(), dialog.open()) {
            // Fails only for a dialog that is not in the page.
            (true, false) => drop(dialog.show_modal()),
            (false, true) => dialog.close(),
            _ => {}
        }
    });
    let keys = KEYS
        .iter()
        .map(|&(key, what)| view! { <dt>{key.split(' ').map(|k| view! { <kbd class="k">{k}</kbd>" " }).collect_view()}</dt><dd>{what}</dd> })
        .collect_view();
    view! {
        <dialog class="help" node_ref=dialog aria-labelledby="help-title" on:close=move |_| page.help.set(false)>
            <div class="bar"><h2 id="help-title">"Keys and looks"</h2><button class="btn right" on:click=move |_| page.help.set(false)>"Close "<kbd>"Esc"</kbd></button></div>
            <div class="help-body">
                <div><dl class="keylist">{keys}</dl>
                    <p class="letters"><Toggle label="Single-character keys" title="Keys of one letter, digit or sign act on the page. They never do in text fields."
                        value=move || page.sides.keys.get() set=move |on| page.sides.switch_keys(on)/></p></div>
                <ul class="looks mask">
                    <li><span class="tk k-mission"><span class="p">"lines"</span><span class="i">"5238"</span></span><span><b>"square, outlined"</b>": the runtime wrote it; the model only reads it"</span></li>
                    <li><span class="tk k-action m t"><span class="p">"path"</span><span class="i">"2398"</span></span><span><b>"round, filled, ruled"</b>": the model writes it; it is trained on it"</span></li>
                    <li><span class="tk k-turn t gv"><span class="p">"↵↵"</span><span class="i">"271"</span></span><span><b>"dashed, filled"</b>": trained, although the prompt supplies it at run time"</span></li>
                    <li><span class="tk k-tmpl b"><span class="p">"Knowledge"</span><span class="i">"33025"</span></span><span><b>"dashed, hatched"</b>": template text that no frame owns"</span></li>
                    <li><span class="tk k-turn s"><span class="p">"start_header_id"</span><span class="i">"128006"</span></span><span><b>"a pointed tag"</b>": one special token"</span></li>
                    <li><span class="sp k-result forged"><span class="tk k-result"><span class="p">"<|"</span><span class="i">"27"</span></span></span><span><b>"red double rule"</b>": content that spells a special token; it is plain text"</span></li>
                </ul>
                <p class="muted sources">"Built with Llama: ids are those of the Llama 3.1 tokenizer. "<button class="btn" on:click=move |_| { page.help.set(false); page.about.set(true); }>"About and licences"</button></p>
            </div>
        </dialog>
    }
}
