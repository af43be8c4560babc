//! The heads of the two sides: name, counts, views, switches, ruler, excerpt.

use crate::controls::{Switch, tab_keys};
use crate::document::Side;
use crate::sides::excerpt::Excerpt;
use crate::sides::ruler::Ruler;
use crate::state::{View, page};
use crate::words;
use leptos::prelude::*;

/// Both heads.
#[component]
pub fn Heads() -> impl IntoView {
    view! {
        <div class="facing sides"><Head side=Side::A/><div class="mul"></div><Head side=Side::B/></div>
    }
}

#[component]
fn Head(side: Side) -> impl IntoView {
    let page = page();
    let view = page.view(side);
    // Both live: the place belongs to what is written.
    let both_live = move || {
        Side::BOTH
            .into_iter()
            .all(|side| page.view(side).get() == View::Live)
    };
    let tokens = move || page.document.read().side(side).tally.tokens;
    let trained = move || page.document.read().side(side).tally.trained;
    let figure = move |n: usize| {
        if page.document.read().side(side).view.is_some() {
            n.to_string()
        } else {
            "—".to_owned()
        }
    };
    let tabs = View::ALL
        .map(|each| {
            let test_id = format!(
                "{}-tab-{}",
                match each {
                    View::Units => "units",
                    View::Wire => "wire",
                    View::Tokens => "tokens",
                    View::Live => "live",
                },
                side.key()
            );
            view! {
                <button role="tab" data-testid=test_id aria-selected=move || (view.get() == each).to_string()
                    tabindex=move || if view.get() == each { "0" } else { "-1" }
                    on:click=move |_| page.show(side, each)>{each.title(side)}</button>
            }
        })
        .collect_view();
    view! {
        <section class="side-hd" aria-label=format!("Side {}, {}", side.plate(), side.title()) data-side=side.key()>
            <div class="r1">
                <span class="plate">{side.plate()}</span><h2>{side.title()}</h2>
                <span class="readout" data-testid=format!("counts-{}", side.key())>
                    <span><b data-testid="count-tokens">{move || figure(tokens())}</b>" tokens"</span>
                    <span><b data-testid="count-trained">{move || figure(trained())}</b>" trained"
                        <span class="opt">{move || {
                            let share = words::share(trained(), tokens());
                            if share.is_empty() { share } else { format!(", {share}") }
                        }}</span></span>
                </span>
            </div>
            <div class="r2">
                <div class="tabs" role="tablist" aria-label=format!("View of side {}", side.plate()) on:keydown=tab_keys>{tabs}</div>
                <span class="right switches">
                    <Show when=move || view.get() == View::Wire && side == Side::A>
                        <Switch label="Readable" title="Show markers by name instead of the reserved tokens the model sees" value=page.readable/>
                    </Show>
                    <Show when=move || view.get() == View::Tokens>
                        <Switch label="Ids" title="Show token ids (I)" value=page.ids[side.index()]/>
                    </Show>
                    <Show when=move || matches!(view.get(), View::Tokens | View::Wire)>
                        <Switch label="Mask" title="Show what is trained on (M)" value=page.mask[side.index()]/>
                    </Show>
                </span>
            </div>
            <Show when=move || !both_live()>
                <Ruler side/>
                <Excerpt side/>
            </Show>
        </section>
    }
}
