//! Files that belong to the topology: the examples, the schema, the reference.

use std::fs;
use std::path::{Path, PathBuf};

use redrive::topology::{self, Loaded};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn examples() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("topologies"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    files
}

fn load(path: &Path) -> Loaded {
    topology::load_file(path, &|_| None).unwrap()
}

#[test]
fn every_example_is_valid_and_warns_of_nothing_but_missing_secrets() {
    let examples = examples();
    assert!(examples.len() >= 6);
    for path in examples {
        let loaded = load(&path);
        let problems: Vec<_> = loaded
            .diagnostics
            .iter()
            .filter(|problem| !["RD0122", "RD0124"].contains(&problem.code.0))
            .collect();
        assert!(problems.is_empty() && loaded.topology.is_some(), "{}: {problems:#?}", path.display());
        assert!(!topology::meaning(&loaded.topology.unwrap()).is_empty());
    }
}

#[test]
fn the_examples_show_every_kind_of_broker() {
    let used: Vec<String> = examples()
        .iter()
        .flat_map(|path| load(path).topology.unwrap().brokers)
        .map(|broker| broker.scheme().to_owned())
        .collect();
    for kind in redrive::broker::BROKERS {
        assert!(kind.schemes().iter().any(|scheme| used.iter().any(|one| one == scheme)), "{}", kind.title());
    }
}

#[test]
fn the_schema_in_docs_follows_the_key_table() {
    let path = root().join("docs/topology.schema.json");
    let made = format!("{}\n", serde_json::to_string_pretty(&topology::schema()).unwrap());
    if std::env::var_os("REDRIVE_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "docs/topology.schema.json is stale: REDRIVE_BLESS=1 cargo test --test it topology"
    );
}

#[test]
fn the_reference_in_docs_follows_the_key_table() {
    let path = root().join("docs/topology.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- keys: from the key table, compared by a test -->\n", "<!-- end of keys -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (kept, after) = rest.split_once(end).unwrap();
    let made = topology::reference();
    if std::env::var_os("REDRIVE_BLESS").is_some() {
        fs::write(&path, format!("{before}{begin}{made}{end}{after}")).unwrap();
        return;
    }
    assert!(kept == made, "docs/topology.md is stale: REDRIVE_BLESS=1 cargo test --test it topology");
}

/// A checker of the part of JSON Schema that our schema uses, so that examples and schema are held together.
fn fits(schema: &serde_json::Value, value: &serde_json::Value) -> Result<(), String> {
    use serde_json::Value;
    let wrong = |why: &str| Err(format!("{value} {why}"));
    if let Some(forms) = schema["anyOf"].as_array() {
        return if forms.iter().any(|form| fits(form, value).is_ok()) {
            Ok(())
        } else {
            wrong("fits no form")
        };
    }
    if let Some(only) = schema.get("const") {
        return if only == value { Ok(()) } else { wrong("is not the constant") };
    }
    if let Some(words) = schema["enum"].as_array() {
        return if words.contains(value) { Ok(()) } else { wrong("is not one of the words") };
    }
    let kind = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        _ => "integer",
    };
    let named = |name: &str| name == kind || (name == "number" && kind == "integer");
    let right = match &schema["type"] {
        Value::String(name) => named(name),
        Value::Array(names) => names.iter().any(|name| named(name.as_str().unwrap())),
        _ => true,
    };
    if !right {
        return wrong("is of the wrong type");
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !regex::Regex::new(pattern).unwrap().is_match(text)
    {
        return wrong("does not fit the pattern");
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| fits(&schema["items"], item)),
        Value::Object(entries) => {
            for required in schema["required"].as_array().into_iter().flatten() {
                if !entries.contains_key(required.as_str().unwrap()) {
                    return wrong(&format!("lacks {required}"));
                }
            }
            entries.iter().try_for_each(|(key, value)| {
                match (schema["properties"].get(key), &schema["additionalProperties"]) {
                    (Some(schema), _) => fits(schema, value),
                    (None, Value::Object(_)) => fits(&schema["additionalProperties"], value),
                    _ => Err(format!("unknown key {key}")),
                }
            })
        }
        _ => Ok(()),
    }
}

#[test]
fn every_example_fits_the_schema() {
    let schema = topology::schema();
    for path in examples() {
        let text = fs::read_to_string(&path).unwrap();
        let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        if let Err(why) = fits(&schema, &value) {
            panic!("{}: {why}", path.display());
        }
    }
    let wrong = serde_json::json!({"version": 1, "brokers": {"b": {"url": "sqlite:a"}}, "channels": {"o": {"sorce": "o"}}});
    assert!(fits(&schema, &wrong).is_err());
}
