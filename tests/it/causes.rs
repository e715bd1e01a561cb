//! The labelled corpora: messages and stack traces of known bugs (`tests/fixtures/causes.json`, made for this
//! test; `causes-2.json`, made later and without a look at the rules: more languages, locales and shapes of ids;
//! `causes-3.json`: hard pairs)
//! and the captured letters. Letters of one bug have to get one cause, of two bugs two.

use std::collections::BTreeMap;
use std::path::Path;

use redrive::failure::{Death, FailureContext, fingerprint, stack};

use crate::dialects::captures;

/// Pairs of samples, by whether they are of one bug and of one cause.
#[derive(Default)]
struct Pairs {
    right: u64,
    wrongly_together: u64,
    wrongly_apart: u64,
}

impl Pairs {
    fn of(samples: &[(String, String, String)]) -> (Self, Vec<String>) {
        let mut pairs = Self::default();
        let mut wrong = Vec::new();
        for (at, (bug, cause, text)) in samples.iter().enumerate() {
            for (other_bug, other_cause, other_text) in &samples[at + 1..] {
                match (bug == other_bug, cause == other_cause) {
                    (true, true) => pairs.right += 1,
                    (false, true) => {
                        pairs.wrongly_together += 1;
                        wrong.push(format!("together: {bug} {text} | {other_bug} {other_text}"));
                    }
                    (true, false) => {
                        pairs.wrongly_apart += 1;
                        wrong.push(format!("apart, {bug}: {text} | {other_text}"));
                    }
                    (false, false) => {}
                }
            }
        }
        (pairs, wrong)
    }

    fn precision(&self) -> f64 {
        self.right as f64 / (self.right + self.wrongly_together) as f64
    }

    fn recall(&self) -> f64 {
        self.right as f64 / (self.right + self.wrongly_apart) as f64
    }
}

fn corpus(file: &str) -> Vec<(String, String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(file);
    let samples: Vec<BTreeMap<String, String>> =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    samples
        .into_iter()
        .map(|mut sample| {
            let trace = sample.remove("stack");
            let root = trace.as_deref().and_then(stack::root);
            let death = Death {
                error_class: sample.remove("class"),
                message: sample.remove("message"),
                root_class: root.and_then(|root| root.class).map(str::to_owned),
                root_message: root.and_then(|root| root.message).map(str::to_owned),
                ..Death::default()
            };
            let death = Death { stack: trace, ..death };
            let context = FailureContext { deaths: vec![death], ..FailureContext::default() };
            let cause = fingerprint(&context, &[]);
            let text = format!("{:?} {:?} at {:?}", cause.class, cause.text, cause.frame);
            (sample.remove("bug").unwrap(), cause.id.to_string(), text)
        })
        .collect()
}

#[test]
fn letters_of_one_bug_get_one_cause() {
    let samples = corpus("causes.json");
    let bugs: std::collections::BTreeSet<_> = samples.iter().map(|(bug, ..)| bug.clone()).collect();
    assert!(samples.len() >= 60 && bugs.len() >= 25, "{} samples, {} bugs", samples.len(), bugs.len());
    let (pairs, wrong) = Pairs::of(&samples);
    println!(
        "causes: {} samples of {} bugs, pairwise precision {:.4}, recall {:.4}",
        samples.len(),
        bugs.len(),
        pairs.precision(),
        pairs.recall()
    );
    assert!(pairs.precision() >= 0.99 && pairs.recall() >= 0.95, "{}", wrong.join("\n"));
}

#[test]
fn letters_of_bugs_that_the_rules_were_not_made_for_get_one_cause_too() {
    let samples = corpus("causes-2.json");
    let bugs: std::collections::BTreeSet<_> = samples.iter().map(|(bug, ..)| bug.clone()).collect();
    let (pairs, wrong) = Pairs::of(&samples);
    println!(
        "causes, second corpus: {} samples of {} bugs, pairwise precision {:.4}, recall {:.4}",
        samples.len(),
        bugs.len(),
        pairs.precision(),
        pairs.recall()
    );
    assert!(pairs.precision() >= 0.99 && pairs.recall() >= 0.95, "{}", wrong.join("\n"));
}

/// Pairs that are hard to tell: two bugs with one class and one message in two places, one bug on machines of
/// several languages, with lambdas, goroutines, ports and ids that differ.
#[test]
fn hard_pairs_are_told_apart_or_put_together() {
    let samples = corpus("causes-3.json");
    let bugs: std::collections::BTreeSet<_> = samples.iter().map(|(bug, ..)| bug.clone()).collect();
    let (pairs, wrong) = Pairs::of(&samples);
    println!(
        "causes, hard pairs: {} samples of {} bugs, pairwise precision {:.4}, recall {:.4}",
        samples.len(),
        bugs.len(),
        pairs.precision(),
        pairs.recall()
    );
    assert!(samples.len() >= 75 && bugs.len() >= 25, "{} samples, {} bugs", samples.len(), bugs.len());
    assert!(pairs.precision() >= 0.99 && pairs.recall() >= 0.95, "{}", wrong.join("\n"));
}

/// The captured letters: one application, one bug, several versions of a framework. What is expected of a
/// letter, without its digits, names its bug.
#[test]
fn captured_letters_of_one_bug_get_one_cause() {
    let mut samples = Vec::new();
    for capture in captures() {
        let context = redrive::dialect::read(&capture.letter);
        let expected = &capture.json["expected"];
        let text = |name: &str| expected[name].as_str().unwrap_or_default().to_owned();
        let digitless = |text: String| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        let (class, message) = (text("root_class"), digitless(text("message")));
        if class.is_empty() || message.is_empty() {
            continue;
        }
        // The applications were small: class, message and innermost message, without the record's own ids,
        // quoted tokens and topic names, say which of their bugs it was.
        if capture.json["synthetic"] == true {
            continue;
        }
        let mut framework = capture.json["framework"].as_str().unwrap();
        for broker in ["-kafka", "-rabbit", "-amqp", "-sqs"] {
            framework = framework.split(broker).next().unwrap();
        }
        let root = context.last().and_then(|death| death.root_message.clone()).unwrap_or_default();
        let root = digitless(root.split("-retry").next().unwrap().to_owned());
        let root: String = root.split('\'').step_by(2).collect();
        let bug = format!("{framework} {class} {} {root}", message.replace("null", ""));
        let cause = fingerprint(&context, &[]);
        let shown = format!("{}: {:?} {:?} at {:?}", capture.name, cause.class, cause.text, cause.frame);
        samples.push((bug, cause.id.to_string(), shown));
    }
    let (pairs, wrong) = Pairs::of(&samples);
    println!(
        "causes of captured letters: {} letters, pairwise precision {:.4}, recall {:.4}",
        samples.len(),
        pairs.precision(),
        pairs.recall()
    );
    assert!(pairs.precision() >= 0.99 && pairs.recall() >= 0.95, "{}", wrong.join("\n"));
}
