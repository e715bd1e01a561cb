//! The key table as a JSON Schema, so that editors complete and check a topology while it is written.
//! `redrive check --schema` prints it; `docs/topology.schema.json` is kept equal by a test.

use serde_json::{Map, Value, json};

use super::keys::{self, Key, Kind, Takes, Variant};

/// A value that holds a reference can be anything once the reference is followed.
const REFERENCE: &str = "\\$\\{";

/// The schema of a topology file.
pub fn schema() -> Value {
    let mut file = table(keys::FILE);
    if let Some(object) = file.as_object_mut() {
        // Room for anchors.
        object.insert("patternProperties".to_owned(), json!({"^x-": {}}));
    }
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!("redrive topology, version 1"));
    if let Value::Object(file) = file {
        schema.extend(file);
    }
    Value::Object(schema)
}

fn table(keys: &[Key]) -> Value {
    let mut properties = Map::new();
    for key in keys {
        let mut value = kind(&key.kind);
        if let Some(object) = value.as_object_mut() {
            let default = if key.required { String::new() } else { format!(" Default: {}.", key.default) };
            object.insert("description".to_owned(), json!(format!("{}.{default}", capital(key.help))));
        }
        properties.insert(key.name.to_owned(), value);
    }
    let required: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let mut object = json!({"type": "object", "additionalProperties": false, "properties": properties});
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn kind(kind: &Kind) -> Value {
    let text = || json!({"type": ["string", "number", "boolean"]});
    match kind {
        Kind::Version => json!({"const": 1}),
        Kind::Text => json!({"type": ["string", "number", "boolean"], "minLength": 1}),
        Kind::Url => json!({"type": "string", "minLength": 1, "not": {"pattern": "://[^/@]*:[^/@$]+@"}}),
        Kind::Secret { literal: true } => json!({"type": "string"}),
        Kind::Secret { literal: false } => json!({"type": "string", "pattern": REFERENCE}),
        Kind::Word(words) => json!({"anyOf": [{"enum": words}, reference()]}),
        Kind::Bool => json!({"anyOf": [{"type": "boolean"}, reference()]}),
        Kind::Count { min, max } => {
            json!({"anyOf": [{"type": "integer", "minimum": min, "maximum": max}, reference()]})
        }
        Kind::Duration { .. } => {
            json!({"type": "string", "pattern": format!("^[0-9]+(ms|s|m|h|d)( ?[0-9]+(ms|s|m|h|d))*$|{REFERENCE}")})
        }
        Kind::Rate => {
            json!({"type": "string", "pattern": format!("^unlimited$|^[0-9]+(\\.[0-9]+)?/[smh]$|{REFERENCE}")})
        }
        Kind::Choice(variants) => choice(variants),
        Kind::Place(forms) => {
            let mut places = choice(keys::PLACE);
            if let Some(all) = places["anyOf"].as_array_mut() {
                all.insert(0, json!({"type": "string", "pattern": short_place(forms)}));
            }
            places
        }
        Kind::Table(keys) => table(keys),
        Kind::Named { keys, .. } => {
            json!({"type": "object", "minProperties": 1, "additionalProperties": table(keys)})
        }
        Kind::List(keys) => json!({"type": "array", "items": table(keys)}),
        Kind::Texts => json!({"type": "array", "items": text()}),
        Kind::TextMap | Kind::Options => json!({"type": "object", "additionalProperties": text()}),
    }
}

/// `header NAME`, `body /POINTER`, and how the value is written there.
fn short_place(forms: &[&str]) -> String {
    let form = if forms.is_empty() {
        String::new()
    } else {
        let one = forms.join("|");
        format!("( +\\(({one})(\\|({one}))*\\))?")
    };
    format!("^(header +[^ ()][^()]*|body +/[^()]*){form}$|{REFERENCE}")
}

fn reference() -> Value {
    json!({"type": "string", "pattern": REFERENCE})
}

fn choice(variants: &[Variant]) -> Value {
    let words: Vec<&str> = variants.iter().filter(|v| v.takes == Takes::Nothing).map(|v| v.word).collect();
    let mut forms: Vec<Value> = Vec::new();
    if !words.is_empty() {
        forms.push(json!({"enum": words}));
    }
    for variant in variants.iter().filter(|variant| variant.takes != Takes::Nothing) {
        let value = match variant.takes {
            Takes::Pointer => json!({"type": "string", "pattern": format!("^/|{REFERENCE}")}),
            _ => json!({"type": "string", "minLength": 1}),
        };
        let mut properties = Map::new();
        properties.insert(variant.word.to_owned(), value);
        forms.push(json!({
            "type": "object", "additionalProperties": false, "required": [variant.word], "properties": properties,
        }));
    }
    json!({"anyOf": forms})
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
