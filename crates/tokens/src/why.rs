//! Why a token is trained on, or is not: the case of the format's mask rule that it falls under.

use crate::{Arm, Token};
use formats::{Owner, Role};

/// A case of a mask rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// AgenticML: the marker of a frame of the model, which switches training on.
    ModelMarker,
    /// AgenticML: what a frame of the model says.
    ModelContent,
    /// AgenticML: the marker of a frame of the runtime, which switches training off.
    RuntimeMarker,
    /// AgenticML: what a frame of the runtime says.
    RuntimeContent,
    /// ChatML: begin of text, before the first turn.
    Begin,
    /// ChatML: the header of an assistant turn, which the prompt supplies.
    AssistantHeader,
    /// ChatML: the header of another turn, and its blank lines.
    OtherStructure,
    /// ChatML: the blank line after an assistant header: trained, though the prompt supplies it.
    Given,
    /// ChatML: text of the template.
    Template,
    /// ChatML: what an assistant turn says.
    AssistantContent,
    /// ChatML: the end of an assistant turn.
    AssistantEnd,
    /// ChatML: what another turn says.
    OtherContent,
    /// ChatML: the end of another turn.
    OtherEnd,
}

impl Why {
    /// Whether the rule trains on a token of this case.
    pub fn trained(self) -> bool {
        matches!(
            self,
            Self::ModelMarker
                | Self::ModelContent
                | Self::Given
                | Self::AssistantContent
                | Self::AssistantEnd
        )
    }
}

/// The case a token falls under, from what its segment is and who wrote it. `role` is that of its
/// message; AgenticML has none. Text that spells a special token counts as the text it is encoded as
/// under [`crate::Policy::Safe`].
pub fn why(arm: Arm, token: &Token, role: Option<&str>) -> Why {
    let special = token.special.as_deref().filter(|_| !token.forged);
    match arm {
        Arm::AgenticMl => match (token.owner, special.is_some()) {
            (Owner::Model, true) => Why::ModelMarker,
            (Owner::Model, false) => Why::ModelContent,
            (Owner::Runtime, true) => Why::RuntimeMarker,
            (Owner::Runtime, false) => Why::RuntimeContent,
        },
        Arm::ChatMl => chatml(token, special, role == Some("assistant")),
    }
}

fn chatml(token: &Token, special: Option<&str>, assistant: bool) -> Why {
    match (token.role, special) {
        (Role::Template, _) => Why::Template,
        (_, Some("<|begin_of_text|>")) => Why::Begin,
        (_, Some("<|start_header_id|>" | "<|end_header_id|>")) if assistant => Why::AssistantHeader,
        (_, Some("<|start_header_id|>" | "<|end_header_id|>")) => Why::OtherStructure,
        (Role::Structure, Some(_)) if assistant => Why::AssistantEnd,
        (Role::Structure, Some(_)) => Why::OtherEnd,
        (Role::Structure, None) if token.given => Why::Given,
        // The model owns what joins the frames of its turn, the runtime the word in the header.
        (Role::Structure, None) if assistant && token.owner == Owner::Model => {
            Why::AssistantContent
        }
        (Role::Structure, None) if assistant => Why::AssistantHeader,
        (Role::Structure, None) => Why::OtherStructure,
        (Role::Content, _) if assistant => Why::AssistantContent,
        (Role::Content, _) => Why::OtherContent,
    }
}
