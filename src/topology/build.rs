//! Turns checked values into the topology: defaults laid under, words into types.

use std::num::NonZeroU32;
use std::ops::Range;

use super::read::{Checked, Fields};
use super::{
    At, BrokerDecl, Channel, DeadLetterDecl, EventIdRule, FailureConvention, Forms, GroupRule, NumberForm,
    Place, RedriveDecl, ReturnTo, Secret, ServedBy, Setting, Settings, Tier, TimeForm, Topology, codes,
};
use crate::clock;
use crate::diagnostic::Diagnostic;

/// Blocks that only one broker needs.
const BLOCKS: [&str; 3] = ["kafka", "rabbitmq", "sqs"];

/// The topology that the checked values make. Problems found on the way go to `problems`.
pub(super) fn topology(mut file: Fields, problems: &mut Vec<Diagnostic>) -> Topology {
    let defaults = file.table("defaults").unwrap_or_default();
    let brokers =
        file.named("brokers").into_iter().map(|(name, fields)| broker(name, fields, problems)).collect();
    let channels = file
        .named("channels")
        .into_iter()
        .map(|(name, mut fields)| {
            fields.lay_under(&defaults);
            channel(name, fields)
        })
        .collect();
    Topology { default_broker: file.text("default_broker"), brokers, channels }
}

fn broker(name: At<String>, mut fields: Fields, problems: &mut Vec<Diagnostic>) -> BrokerDecl {
    let url = fields.secret("url").unwrap_or_default();
    let mut decl = BrokerDecl {
        name,
        url: At { value: String::new(), span: url.span.clone() },
        username: fields.secret("username"),
        password: fields.secret("password"),
        account: fields.text("account"),
        protected: fields.bool("protected"),
        options: fields.options("options"),
        unresolved: fields.unresolved,
    };
    take_login_out(&url, &mut decl, problems);
    decl
}

/// A url that came from the environment may hold a login: it moves to where logins are kept. One that is
/// written out with a password never gets here: the scan before parsing has refused it.
fn take_login_out(url: &At<Secret>, decl: &mut BrokerDecl, problems: &mut Vec<Diagnostic>) {
    let Some(text) = url.expose() else {
        decl.url.value = url.source().to_owned();
        return;
    };
    decl.url.value = text.to_owned();
    let Some(start) = text.find("://").map(|at| at + 3) else { return };
    let address_end = text[start..].find(['/', '?', '#']).map_or(text.len(), |at| start + at);
    let sign = match crate::redact::url_passwords(text).first() {
        Some(password) => Some(password.end),
        None => text[start..address_end].rfind('@').map(|at| start + at),
    };
    let Some(sign) = sign else { return };
    let (user, password) = match text[start..sign].split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (&text[start..sign], None),
    };
    decl.url.value = format!("{}{}", &text[..start], &text[sign + 1..]);
    let mut put = |place: &mut Option<At<Secret>>, part: &str, what: &str| {
        if part.is_empty() {
            return;
        }
        if let Some(there) = place {
            problems.push(
                Diagnostic::error(codes::LOGIN_TWICE, format!("the {what} is given twice"))
                    .at(there.span.clone(), "here")
                    .near(url.span.clone(), "and in this url")
                    .help(format!("keep one: take {what}: away, or take it out of the url")),
            );
        } else {
            *place =
                Some(At { value: Secret::new(percent_decoded(part), url.source()), span: url.span.clone() });
        }
    };
    put(&mut decl.username, user, "username");
    put(&mut decl.password, password.unwrap_or_default(), "password");
}

/// `%40` as `@`; what is not an escape stays.
pub(crate) fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match digits
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|d| u8::from_str_radix(d, 16).ok())
        {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

fn channel(name: At<String>, mut fields: Fields) -> Channel {
    let mut retry = fields.table("retry").unwrap_or_default();
    let tiers = retry.list("tiers").into_iter().filter_map(tier).collect();
    let mut dead_letter = fields.table("dead_letter").unwrap_or_default();
    let mut alert = dead_letter.table("alert").unwrap_or_default();
    let mut redrive = fields.table("redrive").unwrap_or_default();
    let usual = RedriveDecl::default();
    let blocks = BLOCKS
        .iter()
        .filter_map(|block| {
            fields.table(block).map(|settings| ((*block).to_owned(), self::settings(settings)))
        })
        .collect();
    Channel {
        name,
        broker: fields.text("broker"),
        owner: fields.text("owner"),
        source: fields.text("source").unwrap_or_default(),
        create_source: fields.bool("create_source"),
        consumer: fields.text("consumer"),
        return_to: fields.choice("return_to").map(|c| {
            c.map(|(word, text)| match word {
                "name" => ReturnTo::Named(text),
                _ => ReturnTo::Source,
            })
        }),
        shared: fields.bool("shared"),
        event_id: fields.choice("event_id").unwrap_or(At::nowhere(("none", String::new()))).map(
            |(word, text)| match word {
                "header" => EventIdRule::Header(text),
                "property" => EventIdRule::Property(text),
                "body" => EventIdRule::Body(text),
                _ => EventIdRule::None,
            },
        ),
        group: fields.choice("group").unwrap_or(At::nowhere(("none", String::new()))).map(|(word, text)| {
            match word {
                "key" => GroupRule::Key,
                "header" => GroupRule::Header(text),
                "body" => GroupRule::Body(text),
                _ => GroupRule::None,
            }
        }),
        served_by: retry.choice("served_by").map(|c| {
            c.map(|(word, _)| match word {
                "broker" => ServedBy::Broker,
                "consumer" => ServedBy::Consumer,
                _ => ServedBy::Relay,
            })
        }),
        retry_rate: retry.rate("rate"),
        tiers,
        dead_letter: DeadLetterDecl {
            name: dead_letter.text("name"),
            retention: dead_letter.duration("retention"),
            alert_depth: alert.count("depth").map(|c| c.map(|n| u64::try_from(n).unwrap_or(0))),
            alert_age: alert.duration("age"),
        },
        redrive: RedriveDecl {
            rate: redrive.rate("rate").unwrap_or(usual.rate),
            max_redrives: redrive
                .count("max_redrives")
                .and_then(|count| {
                    let number = u32::try_from(count.value).ok().and_then(NonZeroU32::new)?;
                    Some(At { value: number, span: count.span })
                })
                .unwrap_or(usual.max_redrives),
            dedup_window: redrive.duration("dedup_window"),
        },
        failure: fields.table("failure").map(failure),
        blocks,
    }
}

fn tier(mut fields: Fields) -> Option<Tier> {
    let delay = fields.duration("delay")?;
    let written = fields.text("name");
    let name_written = written.is_some();
    let name = written.unwrap_or_else(|| At {
        value: format!("retry-{}", clock::exact(delay.value).replace(' ', "")),
        span: delay.span.clone(),
    });
    Some(Tier { name, name_written, delay })
}

fn failure(mut fields: Fields) -> FailureConvention {
    let mut forms = Vec::new();
    let mut place = |key: &str| match fields.take(key) {
        Some(Checked::Place(place, written_as)) => {
            forms.push((key.to_owned(), written_as));
            Some(place.map(|(word, text)| match word {
                "body" => Place::Body(text),
                _ => Place::Header(text),
            }))
        }
        _ => None,
    };
    let (error, message, stack) = (place("error"), place("message"), place("stack"));
    let (origin, attempts, at) = (place("origin"), place("attempts"), place("at"));
    let mut written = |key: &str| {
        let beside = fields.choice(&format!("{key}_as")).map(|form| form.map(|(word, _)| word));
        let with_it =
            forms.iter_mut().find(|(known, _)| known == key).map(|(_, forms)| std::mem::take(forms));
        (with_it.unwrap_or_default(), beside)
    };
    let ((attempts_as, attempts_beside), (at_as, at_beside)) = (written("attempts"), written("at"));
    FailureConvention {
        error,
        message,
        stack,
        origin,
        attempts,
        attempts_as: Forms::new(attempts_as, attempts_beside, |word| match word {
            "int32" => NumberForm::Int32,
            _ => NumberForm::Text,
        }),
        at,
        at_as: Forms::new(at_as, at_beside, |word| match word {
            "ms" => TimeForm::Milliseconds,
            "s" => TimeForm::Seconds,
            _ => TimeForm::Rfc3339,
        }),
        strip: fields.texts("strip"),
        names: match fields.take("names") {
            Some(Checked::TextMap(names)) => names,
            _ => Vec::new(),
        },
        own_code: fields.texts("own_code"),
    }
}

impl<T> Forms<T> {
    fn new(
        with_it: Vec<At<&'static str>>,
        beside: Option<At<&'static str>>,
        form: impl Fn(&str) -> T,
    ) -> Self {
        let form = |word: At<&'static str>| word.map(&form);
        Self { with_it: with_it.into_iter().map(form).collect(), beside: beside.map(form) }
    }
}

fn settings(fields: Fields) -> Settings {
    let mut settings = Settings::new();
    for (name, key_span, checked) in fields.entries {
        let (value, span) = match checked {
            Checked::Text(text) => (Setting::Text(text.value), text.span),
            Checked::Choice(choice) => (Setting::Text(choice.value.0.to_owned()), choice.span),
            Checked::Bool(bool) => (Setting::Bool(bool.value), bool.span),
            Checked::Count(count) => (Setting::Number(count.value), count.span),
            Checked::Duration(duration) => (Setting::Duration(duration.value), duration.span),
            Checked::TextMap(map) => (Setting::Map(map), key_span.clone()),
            _ => continue,
        };
        settings.push((At { value: name.to_owned(), span: key_span }, At { value, span }));
    }
    settings
}

impl<T> At<T> {
    fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At { value: f(self.value), span: self.span }
    }
}

macro_rules! take {
    ($($name:ident: $variant:ident -> $type:ty;)*) => {
        $(fn $name(&mut self, key: &str) -> Option<$type> {
            match self.take(key)? {
                Checked::$variant(value) => Some(value),
                _ => None,
            }
        })*
    };
}

impl Fields {
    fn take(&mut self, key: &str) -> Option<Checked> {
        let at = self.entries.iter().position(|(name, ..)| *name == key)?;
        Some(self.entries.remove(at).2)
    }

    take! {
        text: Text -> At<String>;
        secret: Secret -> At<Secret>;
        count: Count -> At<i64>;
        duration: Duration -> At<std::time::Duration>;
        rate: Rate -> At<super::Rate>;
        choice: Choice -> At<(&'static str, String)>;
        table: Table -> Fields;
    }

    fn bool(&mut self, key: &str) -> bool {
        matches!(self.take(key), Some(Checked::Bool(At { value: true, .. })))
    }

    fn named(&mut self, key: &str) -> Vec<(At<String>, Fields)> {
        match self.take(key) {
            Some(Checked::Named(named)) => named,
            _ => Vec::new(),
        }
    }

    fn list(&mut self, key: &str) -> Vec<Fields> {
        match self.take(key) {
            Some(Checked::List(list)) => list,
            _ => Vec::new(),
        }
    }

    fn texts(&mut self, key: &str) -> Vec<At<String>> {
        match self.take(key) {
            Some(Checked::Texts(texts)) => texts,
            _ => Vec::new(),
        }
    }

    fn options(&mut self, key: &str) -> Vec<(At<String>, At<Secret>)> {
        match self.take(key) {
            Some(Checked::Options(options)) => options,
            _ => Vec::new(),
        }
    }

    /// Lays defaults under these fields: maps key by key, everything else only where nothing is written.
    fn lay_under(&mut self, defaults: &Fields) {
        for (name, span, value) in &defaults.entries {
            match (self.entries.iter_mut().find(|(known, ..)| known == name), value) {
                (Some((_, _, Checked::Table(mine))), Checked::Table(theirs)) => mine.lay_under(theirs),
                (Some((_, _, Checked::TextMap(mine))), Checked::TextMap(theirs)) => {
                    for (key, text) in theirs {
                        if !mine.iter().any(|(known, _)| known == key) {
                            mine.push((key.clone(), text.clone()));
                        }
                    }
                }
                (Some(_), _) => {}
                (None, _) => self.entries.push((name, Range::clone(span), value.clone())),
            }
        }
    }
}
