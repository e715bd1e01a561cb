//! Forms of YAML on which readers differ: each has one answer here.

use super::*;

#[test]
fn null_empty_and_missing_are_three_things() {
    for null in
        ["owner:", "owner: ~", "owner: null", "retry:", "retry: {tiers: }", "dead_letter: {name: null}"]
    {
        assert_eq!(codes_in_channel(null), ["RD0106"], "{null}");
    }
    assert_eq!(codes_in_channel("owner: \"\""), ["RD0106"]);
    assert_eq!(codes_in_channel("owner: \"  \""), ["RD0106"]);
    assert_eq!(good(&in_channel("owner: \"null\"")).channels[0].owner.as_ref().unwrap().value, "null");
    assert!(good(&in_channel("")).channels[0].owner.is_none());
    assert!(good(&in_channel("retry: {tiers: []}")).channels[0].tiers.is_empty());
    assert_eq!(codes_in_channel("retry: {tiers: [~]}"), ["RD0106"]);
    assert_eq!(codes_in_channel("sqs: {tags: {team: \"\"}}"), [""; 0]);
    assert_eq!(codes_in_channel("sqs: {tags: {team: }}"), ["RD0106"]);
}

#[test]
fn an_empty_file_and_empty_maps_are_said_plainly() {
    for empty in ["", "\n\n", "# nothing\n", "---\n", "~\n"] {
        assert_eq!(codes_of(&loaded(empty)), ["RD0106"], "{empty:?}");
    }
    assert_eq!(codes_of(&loaded("{}")), ["RD0105", "RD0105", "RD0105"]);
    assert_eq!(codes_of(&loaded("[a]")), ["RD0102"]);
    assert_eq!(codes_of(&loaded("version: 1\nbrokers: {}\nchannels: {}\n")), ["RD0106", "RD0106"]);
}

#[test]
fn a_byte_order_mark_and_crlf_change_nothing_but_the_places() {
    let plain = in_channel("owner: me\ndead_leter: {}");
    for text in [
        format!("\u{feff}{plain}"),
        plain.replace('\n', "\r\n"),
        format!("\u{feff}{}", plain.replace('\n', "\r\n")),
    ] {
        let loaded = loaded(&text);
        assert_eq!(problems(&loaded, &text), [("RD0107".to_owned(), 8, "dead_leter".to_owned())], "{text:?}");
    }
}

#[test]
fn places_hold_behind_letters_of_several_bytes() {
    let text = in_channel("owner: \"日本語 é\" # ü\nzzz: 1");
    assert_eq!(problems(&loaded(&text), &text), [("RD0107".to_owned(), 8, "zzz".to_owned())]);
}

#[test]
fn bytes_that_are_no_text_are_placed() {
    let variable = |_: &str| None;
    let outside = Outside { variable: &variable, base: std::path::PathBuf::new() };
    let loaded = load("redrive.yaml", b"version: 1\nowner: \xff\n", &outside);
    assert_eq!(codes_of(&loaded), ["RD0101"]);
    assert!(loaded.diagnostics[0].title.contains("line 2"), "{:?}", loaded.diagnostics);
    assert_eq!(codes_of(&load("redrive.yaml", &[b' '; (1 << 20) + 1], &outside)), ["RD0109"]);
}

#[test]
fn tabs_brackets_and_quotes_that_do_not_close_are_placed() {
    let tab = "version: 1\nbrokers:\n\tlocal: {url: \"sqlite:a.db\"}\n";
    let said = loaded(tab);
    assert_eq!(codes_of(&said), ["RD0100"]);
    assert!(said.diagnostics[0].help[0].contains("spaces"), "{:?}", said.diagnostics);
    assert_eq!(problems(&said, tab)[0].1, 3);
    for broken in [
        "a: [1, 2\n",
        "a: {b: c\n",
        "a: \"b\n",
        "a: b: c\n",
        "a: *b\n",
        "- a\nb: c\n",
        "a: 'x\n",
        "%TAG\n",
        "a: @b",
    ] {
        assert_eq!(codes_of(&loaded(broken)), ["RD0100"], "{broken:?}");
    }
}

#[test]
fn tags_documents_and_keys_that_are_no_words_are_refused() {
    let tagged = in_channel("owner: !!str me");
    assert_eq!(problems(&loaded(&tagged), &tagged), [("RD0118".to_owned(), 7, "!!str me".to_owned())]);
    assert_eq!(codes_in_channel("owner: !secret me"), ["RD0118"]);
    let two = format!("{}---\nversion: 1\n", in_channel(""));
    assert_eq!(codes_of(&loaded(&two)), ["RD0111"]);
    assert_eq!(codes_in_channel("[a, b]: c"), ["RD0117"]);
    assert_eq!(codes_in_channel("? {a: b}\n: c"), ["RD0117"]);
}

#[test]
fn choices_say_what_there_is() {
    for (wrong, code) in [
        ("event_id: event-id", "RD0114"),
        ("event_id: header", "RD0114"),
        ("event_id: {heder: a}", "RD0114"),
        ("event_id: {header: a, body: /b}", "RD0114"),
        ("event_id: {}", "RD0114"),
        ("event_id: [header]", "RD0102"),
        ("event_id: {body: order.id}", "RD0119"),
        ("group: {body: \"/a~2\"}", "RD0119"),
        ("group: {header: \"\"}", "RD0106"),
        ("return_to: orders.return", "RD0114"),
    ] {
        assert_eq!(codes_in_channel(wrong), [code], "{wrong}");
    }
    let topology = good(&in_channel("event_id: {property: message_id}\ngroup: {body: /order/customer}"));
    assert_eq!(topology.channels[0].event_id.value, EventIdRule::Property("message_id".into()));
    assert_eq!(topology.channels[0].group.value, GroupRule::Body("/order/customer".into()));
}

#[test]
fn rates_carry_their_time() {
    for (text, rate) in [("50/s", 50.0), ("600/m", 10.0), ("3600/h", 1.0), ("0.5/s", 0.5)] {
        assert_eq!(Rate::parse(text), Some(Rate::PerSecond(rate)));
    }
    assert_eq!(Rate::parse("unlimited"), Some(Rate::Unlimited));
    for bad in ["50", "0/s", "-1/s", "1e3/s", "/s", "50/d", "50 /s", "inf/s", "NaN/s", "1./s", ".5/s"] {
        assert_eq!(Rate::parse(bad), None, "{bad}");
    }
    for text in ["50/s", "0.5/s", "unlimited", "10/m", "1/h"] {
        assert_eq!(Rate::parse(&Rate::parse(text).unwrap().to_string()), Rate::parse(text), "{text}");
    }
    assert_eq!(codes_in_channel("redrive: {rate: 50}"), ["RD0115"]);
}

#[test]
fn defaults_lie_under_every_channel_key_by_key() {
    let text = "version: 1\nbrokers: {local: {url: \"sqlite:a.db\"}}\nchannels:\n  a: {source: a}\n  b: {source: b, redrive: {rate: 5/s}, retry: {tiers: []}}\ndefaults:\n  owner: team\n  redrive: {rate: 10/s, max_redrives: 7}\n  retry: {tiers: [{delay: 5s}]}\n";
    let topology = good(text);
    let [a, b] = &topology.channels[..] else { panic!() };
    assert_eq!(
        (a.redrive.rate.value, a.redrive.max_redrives.get(), a.tiers.len()),
        (Rate::PerSecond(10.0), 7, 1)
    );
    assert_eq!(
        (b.redrive.rate.value, b.redrive.max_redrives.get(), b.tiers.len()),
        (Rate::PerSecond(5.0), 7, 0)
    );
    assert_eq!(b.owner.as_ref().unwrap().value, "team");
}

#[test]
fn a_home_made_failure_convention_is_read() {
    let topology = good(&in_channel(
        "failure:\n  error: {header: x-err}\n  attempts: {header: x-n}\n  attempts_as: int32\n  at: {body: /failed/at}\n  at_as: ms\n  strip: [x-err, x-n]",
    ));
    let failure = topology.channels[0].failure.as_ref().unwrap();
    assert_eq!(failure.error.as_ref().unwrap().value, Place::Header("x-err".into()));
    assert!(failure.attempts_as.has(NumberForm::Int32, NumberForm::Text));
    assert!(!failure.attempts_as.has(NumberForm::Text, NumberForm::Text));
    assert!(failure.at_as.has(TimeForm::Milliseconds, TimeForm::Rfc3339));
    assert_eq!(failure.strip.len(), 2);
    assert_eq!(codes_in_channel("failure: {attempts: {body: /n}, attempts_as: int32}"), ["RD0146"]);
    assert_eq!(codes_in_channel("failure: {error: header x, at_as: ms}"), ["RD0146"]);
}

#[test]
fn a_failure_convention_is_read_in_its_short_form() {
    let topology = good(&in_channel(
        "failure: {error: header x-err, message: header x-msg, origin: header x-src, attempts: header x-n (int32|text), at: header x-t (ms|s|rfc3339), stack: body /trace, strip: [x-err, x-n]}",
    ));
    let failure = topology.channels[0].failure.as_ref().unwrap();
    let header = |name: &str| Some(Place::Header(name.to_owned()));
    let value = |place: &Option<At<Place>>| place.as_ref().map(|place| place.value.clone());
    assert_eq!(value(&failure.error), header("x-err"));
    assert_eq!(value(&failure.message), header("x-msg"));
    assert_eq!(value(&failure.origin), header("x-src"));
    assert_eq!(value(&failure.attempts), header("x-n"));
    assert_eq!(value(&failure.at), header("x-t"));
    assert_eq!(value(&failure.stack), Some(Place::Body("/trace".to_owned())));
    for form in [NumberForm::Int32, NumberForm::Text] {
        assert!(failure.attempts_as.has(form, NumberForm::Text), "{form:?}");
    }
    for form in [TimeForm::Milliseconds, TimeForm::Seconds, TimeForm::Rfc3339] {
        assert!(failure.at_as.has(form, TimeForm::Rfc3339), "{form:?}");
    }
    let one = good(&in_channel("failure: {attempts: \"header x-n (int32)\", at: body /when (s)}"));
    let one = one.channels[0].failure.as_ref().unwrap();
    assert!(!one.attempts_as.has(NumberForm::Text, NumberForm::Text));
    assert!(!one.at_as.has(TimeForm::Rfc3339, TimeForm::Rfc3339));
}

#[test]
fn what_is_wrong_in_a_short_form_is_shown_where_it_stands() {
    for (line, code, spot) in [
        ("failure: {error: headr x-err}", "RD0114", "headr"),
        ("failure: {error: header}", "RD0114", "header"),
        ("failure: {stack: body trace}", "RD0119", "trace"),
        ("failure: {error: header x-err (text)}", "RD0114", "(text)"),
        ("failure: {attempts: header x-n (int64)}", "RD0114", "int64"),
        ("failure: {attempts: \"header x-n (text|int33)\"}", "RD0114", "int33"),
        ("failure: {attempts: header x-n (int32}", "RD0114", "(int32"),
        ("failure: {attempts: header x-n ()}", "RD0114", "()"),
        ("failure: {attempts: body /n (int32)}", "RD0146", "int32"),
        ("failure: {at: header x-t (ms), at_as: s}", "RD0104", "s"),
        ("failure: {error: [x-err]}", "RD0102", "x-err"),
    ] {
        let text = in_channel(line);
        let loaded = loaded(&text);
        let found: Vec<(&str, &str)> = loaded
            .diagnostics
            .iter()
            .map(|found| (found.code.0, &text[found.labels[0].span.clone()]))
            .collect();
        assert_eq!(found, [(code, spot)], "{line}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        let variable = |_: &str| None;
        load("x", &bytes, &Outside { variable: &variable, base: std::path::PathBuf::new() });
    }

    #[test]
    fn no_mangled_topology_makes_it_panic_or_slow(
        cut in 0usize..1200, piece in "[ \t\n:{}\\[\\],#&*!|>'\"%@`~?a-z0-9<$-]{0,12}", drop in 0usize..30,
    ) {
        let text = super::reading::DESIGN;
        let at = |n: usize| (0..=n.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        let mangled = format!("{}{piece}{}", &text[..at(cut)], &text[at(cut + drop)..]);
        let started = std::time::Instant::now();
        let loaded = loaded(&mangled);
        proptest::prop_assert!(started.elapsed() < std::time::Duration::from_secs(1));
        proptest::prop_assert_eq!(loaded.source.len(), mangled.len());
        for label in loaded.diagnostics.iter().flat_map(|d| &d.labels) {
            proptest::prop_assert!(mangled.get(label.span.clone()).is_some(), "{:?}", label);
        }
    }
}
