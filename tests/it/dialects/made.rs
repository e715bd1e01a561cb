//! Letters made by hand after a framework's source or documentation, several a file
//! (`tests/fixtures/made/*.json`): other versions, other failures and other ways to the queue than the captured
//! ones. Each is read like those, and may also say what a redrive would do (`prospects`), what it would send
//! (`sent`), and who must have recognised it (`dialects`).

use std::path::Path;

use redrive::dialect;
use redrive::failure::{FailureContext, Prospect};
use redrive::letter::Message;
use serde_json::Value as Json;

use super::capture::Capture;

fn made() -> Vec<Capture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/made");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| Capture::load_several(path)).collect()
}

fn prospects(context: &FailureContext) -> Vec<&'static str> {
    let word = |prospect: &Prospect| match prospect {
        Prospect::Afresh => "afresh",
        Prospect::OneTry { .. } => "one try",
        Prospect::Refused { .. } => "refused",
        Prospect::Pointer { .. } => "pointer",
        Prospect::ToQueue { .. } => "to queue",
        Prospect::Expires { .. } => "expires",
    };
    context.prospects.iter().map(word).collect()
}

/// What of a message is compared: body and key as text, names of headers and some of their values.
fn compare_sent(want: &Json, sent: &Message, wrong: &mut Vec<String>) {
    let text = |bytes: &Option<bytes::Bytes>| {
        bytes
            .as_ref()
            .map(|bytes| Json::from(String::from_utf8_lossy(bytes).into_owned()))
            .unwrap_or_default()
    };
    for (name, want) in want["values"].as_object().into_iter().flatten() {
        let found = sent.headers.last_text(name);
        if found != want.as_str() {
            wrong.push(format!("sent {name}: expected {want}, found {found:?}"));
        }
    }
    let names: Vec<&str> = sent.headers.iter().map(|header| header.name.as_str()).collect();
    for (field, found) in
        [("body", text(&sent.body)), ("key", text(&sent.key)), ("headers", Json::from(names))]
    {
        if let Some(want) = want.get(field)
            && *want != found
        {
            wrong.push(format!("sent {field}: expected {want}, found {found}"));
        }
    }
}

#[test]
fn every_made_letter_is_read_as_expected() {
    let (mut letters, mut fields, mut bad) = (0, 0, Vec::new());
    for capture in made() {
        let context = dialect::read(&capture.letter);
        let mut checked = super::check(&capture, &context);
        let readings: Vec<&str> = context.readings.iter().map(|reading| reading.dialect).collect();
        if let Some(want) = capture.json["dialects"].as_array() {
            let want: Vec<&str> = want.iter().filter_map(Json::as_str).collect();
            checked.same("dialects", want, readings.clone());
        }
        if let Some(want) = capture.json["prospects"].as_array() {
            let want: Vec<&str> = want.iter().filter_map(Json::as_str).collect();
            checked.same("prospects", want, prospects(&context));
        }
        for (field, found) in [("event_id", &context.event_id), ("trace", &context.trace)] {
            if let Some(want) = capture.json["expected"].get(field) {
                checked.same(field, want.as_str().map(str::to_owned), found.clone());
            }
        }
        if let Some(want) = capture.json["expected"].get("deaths") {
            checked.same("deaths", want.as_u64(), u64::try_from(context.deaths.len()).ok());
        }
        if let Some(want) = capture.json["doubts"].as_array() {
            for field in want.iter().filter_map(Json::as_str) {
                checked.same(field, true, context.doubts.iter().any(|doubt| doubt.field == field));
            }
        }
        let want = &capture.json["sent"];
        if want.is_object() {
            match dialect::outgoing(&capture.letter, &context) {
                Ok(message) => compare_sent(want, &message, &mut checked.wrong),
                Err(refused) => checked.wrong.push(format!("refused: {refused:?}")),
            }
        }
        letters += 1;
        fields += checked.fields;
        if !checked.wrong.is_empty() {
            bad.push(format!("{} read as {readings:?}\n    {}", capture.name, checked.wrong.join("\n    ")));
        }
    }
    println!("made letters: {letters}, {fields} fields checked");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(letters >= 40, "{letters}");
}

/// `explain dialects` promises each of them: a letter of its own is stored here, or among the captured ones.
#[test]
fn every_dialect_has_a_stored_letter_of_its_own() {
    let mut read = std::collections::HashMap::new();
    for capture in made().into_iter().chain(super::captures()) {
        for reading in
            dialect::read_declared(&capture.letter, super::declared(&capture.name).as_ref()).readings
        {
            read.entry(reading.dialect).or_insert_with(Vec::new).push(capture.name.clone());
        }
    }
    let mut missing = Vec::new();
    println!(
        "stored letters by dialect: {:?}",
        read.iter().map(|(name, of)| (name, of.len())).collect::<Vec<_>>()
    );
    for known in dialect::DIALECTS {
        let letters = read.get(known.name()).map(Vec::as_slice).unwrap_or_default();
        if !letters.iter().any(|name| name.starts_with(known.name())) {
            missing.push(format!("{}: {:?}", known.name(), letters.iter().take(3).collect::<Vec<_>>()));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
