//! Tools by name.

use formats::json::{Object, Value};
use formats::python;
use std::collections::BTreeMap;

/// A parameter of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Whether a call must give it.
    pub required: bool,
}

/// What arguments a tool takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// Parameters that Python would take by keyword only; the error texts differ.
    pub keyword_only: Vec<Parameter>,
    /// Whether any other argument is taken too.
    pub open: bool,
}

impl Signature {
    /// A signature of these parameters; a name that ends with `?` is optional.
    pub fn of(names: &[&str]) -> Self {
        let parameters = names.iter().map(|name| Parameter {
            name: name.trim_end_matches('?').to_owned(),
            required: !name.ends_with('?'),
        });
        Self {
            parameters: parameters.collect(),
            ..Self::default()
        }
    }

    /// The signature that a tool schema describes: its properties, required as listed there.
    pub fn from_schema(schema: &Value) -> Self {
        let parameters = schema.get("parameters");
        let required = parameters
            .and_then(|p| p.get("required"))
            .and_then(Value::as_array)
            .unwrap_or(&[]);
        let properties = parameters
            .and_then(|p| p.get("properties"))
            .and_then(Value::as_object);
        let names = properties.into_iter().flat_map(Object::keys);
        let parameters = names.map(|name| Parameter {
            name: name.clone(),
            required: required.iter().any(|r| r.as_str() == Some(name)),
        });
        Self {
            parameters: parameters.collect(),
            ..Self::default()
        }
    }

    /// What is wrong with these arguments, in Python's words.
    fn check(&self, tool: &str, arguments: &Object) -> Result<(), String> {
        let all = || self.parameters.iter().chain(&self.keyword_only);
        if !self.open
            && let Some(unknown) = arguments.keys().find(|key| !all().any(|p| p.name == **key))
        {
            return Err(format!(
                "{tool}() got an unexpected keyword argument '{unknown}'"
            ));
        }
        for (parameters, sort) in [
            (&self.parameters, "positional"),
            (&self.keyword_only, "keyword-only"),
        ] {
            let missing: Vec<String> = parameters
                .iter()
                .filter(|p| p.required && !arguments.contains_key(&p.name))
                .map(|p| format!("'{}'", p.name))
                .collect();
            let list = match missing.as_slice() {
                [] => continue,
                [one] => one.clone(),
                [first, second] => format!("{first} and {second}"),
                [head @ .., last] => format!("{}, and {last}", head.join(", ")),
            };
            let plural = if missing.len() == 1 { "" } else { "s" };
            return Err(format!(
                "{tool}() missing {} required {sort} argument{plural}: {list}",
                missing.len()
            ));
        }
        Ok(())
    }
}

/// Why a tool gave no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolFailure {
    /// Arguments of the wrong type; carries what Python's `TypeError` would say.
    Type(String),
    /// The tool's own words, which the model gets as they are.
    Own(String),
    /// Any other failure: its class and text.
    Other(&'static str, String),
    /// A value that is not JSON; carries Python's name of its type.
    NotJson(&'static str),
}

type Function = Box<dyn FnMut(&Object) -> Result<Value, ToolFailure>>;

/// A tool: what the model is told of it, and what it does.
pub struct Tool {
    name: String,
    schema: Value,
    signature: Signature,
    function: Function,
}

impl Tool {
    /// A tool. The arguments have been checked against the signature when the function is called.
    pub fn new(
        name: &str,
        schema: Value,
        signature: Signature,
        function: impl FnMut(&Object) -> Result<Value, ToolFailure> + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            schema,
            signature,
            function: Box::new(function),
        }
    }
}

/// A tool of this name is there already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool already registered: {0}")]
pub struct DuplicateTool(pub String);

/// Why a call gave no value. The texts are what the model gets to read, and the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No such tool; carries the name as Python prints it.
    #[error("unknown tool: {0}")]
    Unknown(String),
    /// Arguments that do not fit, or that the tool cannot use.
    #[error("bad arguments to '{tool}': {text}")]
    Arguments {
        /// The tool.
        tool: String,
        /// What is wrong, in Python's words.
        text: String,
    },
    /// The tool's own words.
    #[error("{0}")]
    Own(String),
    /// Any other failure of the tool.
    #[error("tool '{tool}' raised: {class}: {text}")]
    Raised {
        /// The tool.
        tool: String,
        /// Class of the failure.
        class: &'static str,
        /// What it says.
        text: String,
    },
    /// The tool's value is not JSON. (The reference takes it, and fails when it writes it.)
    #[error("tool '{tool}' returned a {type_name}, which is not JSON")]
    NotJson {
        /// The tool.
        tool: String,
        /// Python's name of the value's type.
        type_name: &'static str,
    },
}

/// Tools by name.
#[derive(Default)]
pub struct Registry {
    tools: BTreeMap<String, Tool>,
}

impl Registry {
    /// Adds a tool.
    ///
    /// # Errors
    /// When there is one of that name.
    pub fn register(&mut self, tool: Tool) -> Result<(), DuplicateTool> {
        if self.tools.contains_key(&tool.name) {
            return Err(DuplicateTool(tool.name));
        }
        self.tools.insert(tool.name.clone(), tool);
        Ok(())
    }

    /// Whether there is a tool of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// The tools' schemas, sorted by name.
    pub fn schemas(&self) -> Vec<Value> {
        self.tools
            .values()
            .map(|tool| tool.schema.clone())
            .collect()
    }

    /// Calls a tool by what the model wrote as its name.
    ///
    /// # Errors
    /// When there is no such tool, or it gives no value.
    pub fn call(&mut self, name: &Value, arguments: &Object) -> Result<Value, CallError> {
        let tool = name.as_str().and_then(|name| self.tools.get_mut(name));
        let Some(tool) = tool else {
            return Err(CallError::Unknown(python::str(name)));
        };
        let checked = tool.signature.check(&tool.name, arguments);
        let value = match checked {
            Ok(()) => (tool.function)(arguments),
            Err(text) => Err(ToolFailure::Type(text)),
        };
        let tool = tool.name.clone();
        value.map_err(|failure| match failure {
            ToolFailure::Type(text) => CallError::Arguments { tool, text },
            ToolFailure::Own(text) => CallError::Own(text),
            ToolFailure::Other(class, text) => CallError::Raised { tool, class, text },
            ToolFailure::NotJson(type_name) => CallError::NotJson { tool, type_name },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::json::loads;

    #[test]
    fn arguments_are_checked_as_python_does() {
        let signature = Signature::of(&["a", "b", "c", "d?"]);
        let check = |arguments: &str| {
            let arguments = loads(arguments).expect("JSON");
            signature.check("f", arguments.as_object().expect("an object"))
        };
        let wanted = "f() missing 3 required positional arguments: 'a', 'b', and 'c'";
        assert_eq!(check("{}"), Err(wanted.to_owned()));
        let wanted = "f() missing 2 required positional arguments: 'a' and 'c'";
        assert_eq!(check("{\"b\": 1}"), Err(wanted.to_owned()));
        let wanted = "f() got an unexpected keyword argument 'x'";
        assert_eq!(check("{\"x\": 1}"), Err(wanted.to_owned()));
        assert_eq!(check("{\"c\": 1, \"b\": 1, \"a\": null}"), Ok(()));
    }

    #[test]
    fn a_schema_is_a_signature() {
        let schema = r#"{"name": "add", "parameters": {"properties": {"a": {}, "b": {}}, "required": ["a"]}}"#;
        let signature = Signature::from_schema(&loads(schema).expect("JSON"));
        assert_eq!(signature, Signature::of(&["a", "b?"]));
    }

    #[test]
    fn a_name_is_taken_once() {
        let tool = || Tool::new("f", Value::Null, Signature::default(), |_| Ok(Value::Null));
        let mut registry = Registry::default();
        assert_eq!(registry.register(tool()), Ok(()));
        assert_eq!(
            registry.register(tool()),
            Err(DuplicateTool("f".to_owned()))
        );
    }
}
