//! Tool schemas as the text of an obs frame.

use crate::frame::{Frame, FrameKind, Trajectory};
use crate::json::{Object, Value};
use crate::python;

/// What an obs frame that lists tools contains.
const OPENING: &str = "namespace tools {";

/// Why a schema cannot be written. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Something that must be an object is not; carries Python's name of its type and what was asked.
    #[error("'{0}' object has no attribute '{1}'")]
    NotAnObject(&'static str, &'static str),
    /// An `enum` that is no list; carries Python's name of its type.
    #[error("'{0}' object is not iterable")]
    NotIterable(&'static str),
    /// A `required` that is no list; carries Python's name of its type.
    #[error("argument of type '{0}' is not iterable")]
    NotAContainer(&'static str),
}

impl SchemaError {
    /// The exception that the reference raises.
    pub fn python_class(&self) -> &'static str {
        match self {
            Self::NotAnObject(..) => "AttributeError",
            Self::NotIterable(_) | Self::NotAContainer(_) => "TypeError",
        }
    }
}

/// Writes tools as the reference does: almost TypeScript. With properties there is a stray `)` in each
/// opening line, enum values are printed as Python prints them, and a tool without a top-level `name`
/// (one in OpenAI's wrapping) is `<unnamed>`. No tools are no text.
///
/// # Errors
/// When a schema is not built of the objects and lists it should be.
pub fn render_tool_schema(tools: &[Value]) -> Result<String, SchemaError> {
    if tools.is_empty() {
        return Ok(String::new());
    }
    let mut lines = vec!["tools:".to_owned(), OPENING.to_owned()];
    for tool in tools {
        let tool = object(tool, "get")?;
        if let Some(text) = description(tool) {
            lines.push(format!(" // {text}"));
        }
        let name = tool.get("name").map_or("<unnamed>".to_owned(), python::str);
        let empty = Value::Object(Object::new());
        let parameters = object(tool.get("parameters").unwrap_or(&empty), "get")?;
        let properties = parameters.get("properties").unwrap_or(&empty);
        if !python::truthy(properties) {
            lines.push(format!(" type {name} = () => any;"));
            continue;
        }
        lines.push(format!(" type {name} = (_: {{)"));
        for (property, schema) in object(properties, "items")? {
            let schema = object(schema, "get")?;
            if let Some(text) = description(schema) {
                lines.push(format!("   // {text}"));
            }
            let optional = match parameters.get("required") {
                Some(required) => !contains(required, property)?,
                None => true,
            };
            let mark = if optional { "?" } else { "" };
            lines.push(format!("   {property}{mark}: {},", type_text(schema)?));
        }
        lines.push("  }) => any;".to_owned());
    }
    lines.push("}".to_owned());
    Ok(lines.join("\n"))
}

fn object<'a>(value: &'a Value, asked: &'static str) -> Result<&'a Object, SchemaError> {
    value
        .as_object()
        .ok_or_else(|| SchemaError::NotAnObject(python::type_name(value), asked))
}

fn description(schema: &Object) -> Option<String> {
    let text = schema
        .get("description")
        .filter(|text| python::truthy(text));
    text.map(python::str)
}

/// Python's `name in required`.
fn contains(required: &Value, name: &str) -> Result<bool, SchemaError> {
    match required {
        Value::Array(names) => Ok(names.iter().any(|other| other.as_str() == Some(name))),
        Value::Object(names) => Ok(names.contains_key(name)),
        Value::String(text) => Ok(text.contains(name)),
        other => Err(SchemaError::NotAContainer(python::type_name(other))),
    }
}

fn type_text(schema: &Object) -> Result<String, SchemaError> {
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("");
    Ok(match kind {
        "string" => match schema.get("enum") {
            None => "string".to_owned(),
            Some(values) => {
                let values: Vec<String> = match values {
                    Value::Array(values) => values.iter().map(python::repr).collect(),
                    Value::Object(values) => values.keys().map(|k| python::repr_str(k)).collect(),
                    Value::String(text) => {
                        let chars = text.chars().map(|c| python::repr_str(&c.to_string()));
                        chars.collect()
                    }
                    other => return Err(SchemaError::NotIterable(python::type_name(other))),
                };
                values.join(" | ")
            }
        },
        "integer" | "number" => "number".to_owned(),
        "boolean" => "boolean".to_owned(),
        "array" => match schema.get("items") {
            Some(items) => type_text(object(items, "get")?)? + "[]",
            None => "any[]".to_owned(),
        },
        "object" => "object".to_owned(),
        _ => "any".to_owned(),
    })
}

/// Whether some obs frame lists tools.
pub fn has_tool_obs(trajectory: &Trajectory) -> bool {
    trajectory.frames.iter().any(|frame| {
        frame.kind == FrameKind::Obs
            && python::truthy(&frame.content)
            && python::str(&frame.content).contains(OPENING)
    })
}

/// Adds an obs frame that lists the tools behind the first goal, or, as the reference does, at the very
/// end when there is no goal. Nothing is added without tools, or when tools are listed already.
///
/// # Errors
/// When a schema cannot be written.
pub fn with_tool_obs(trajectory: &Trajectory, tools: &[Value]) -> Result<Trajectory, SchemaError> {
    let mut trajectory = trajectory.clone();
    if !tools.is_empty() && !has_tool_obs(&trajectory) {
        let frames = &mut trajectory.frames;
        let goal = frames.iter().position(|f| f.kind == FrameKind::Goal);
        let place = goal.map_or(frames.len(), |goal| goal + 1);
        frames.insert(
            place,
            Frame::new(FrameKind::Obs, render_tool_schema(tools)?),
        );
    }
    Ok(trajectory)
}
