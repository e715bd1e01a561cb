//! What people really wrote, by case number.

use std::time::Duration;

use super::*;

fn tier(delay: &str) -> String {
    format!("retry: {{tiers: [{{delay: {delay}}}]}}")
}

fn delay_of(text: &str) -> Duration {
    good(&in_channel(&tier(text))).channels[0].tiers[0].delay.value
}

fn help_of(lines: &str) -> String {
    loaded(&in_channel(lines)).diagnostics.iter().flat_map(|d| d.help.clone()).collect::<Vec<_>>().join("\n")
}

#[test]
fn y01_durations_without_a_unit_are_errors_that_suggest_one() {
    for bare in ["600000", "\"600000\""] {
        assert_eq!(codes_in_channel(&tier(bare)), ["RD0103"]);
        assert_eq!(help_of(&tier(bare)), "write 10m or 600000ms");
    }
    for same in ["10m", "600s", "600000ms"] {
        assert_eq!(delay_of(same), Duration::from_secs(600), "{same}");
    }
    assert_eq!(help_of(&tier("60")), "write 60s or 1m");
}

#[test]
fn y02_m_ms_and_capital_m() {
    assert_eq!(delay_of("1ms"), Duration::from_millis(1));
    assert_eq!(delay_of("1m30s"), Duration::from_secs(90));
    for (bad, word) in [
        ("1M", "months"),
        ("5 m s", "units: ms"),
        ("-5s", "negative"),
        ("1h5", "units: ms"),
        ("1.5m", "1m30s"),
        ("5S", "small letters"),
        ("PT10M", "10m for PT10M"),
        ("1w", "7d"),
    ] {
        assert_eq!(codes_in_channel(&tier(bad)), ["RD0103"], "{bad}");
        assert!(help_of(&tier(bad)).contains(word), "{bad}: {}", help_of(&tier(bad)));
    }
    assert_eq!(codes_in_channel(&tier("0s")), ["RD0116"]);
}

#[test]
fn y04_duplicate_keys_are_errors_that_name_both_lines_at_every_level() {
    for (lines, place) in [
        ("dead_letter: {name: a}\ndead_letter: {name: b}", "dead_letter"),
        ("redrive: {max_redrives: 3, max_redrives: 30}", "max_redrives"),
        ("kafka: {config: {a: 1, a: 2}}", "a"),
        ("sqs: {tags: {team: a, team: b}}", "team"),
        ("event_id: {header: a, header: b}", "header"),
    ] {
        let text = in_channel(lines);
        let loaded = loaded(&text);
        let twice = loaded.diagnostics.iter().find(|d| d.code == codes::TWICE).expect(lines);
        let [again, first] = &twice.labels[..] else { panic!("{twice:?}") };
        assert_eq!((&text[again.span.clone()], &text[first.span.clone()]), (place, place));
        assert!(again.span.start > first.span.start && again.primary && !first.primary);
    }
    let text = "version: 1\nbrokers: {local: {url: \"sqlite:a.db\"}}\nchannels:\n  a: {source: a}\n  a: {source: b}\n";
    assert_eq!(codes_of(&loaded(text)), ["RD0104"]);
}

#[test]
fn what_is_wrong_in_a_block_that_is_given_twice_is_found_in_the_same_go() {
    let head = "version: 1\nbrokers: {local: {url: \"sqlite:a.db\"}}\nchannels:\n";
    let again = |second: &str| codes_of(&loaded(&format!("{head}  a: {{source: a}}\n  a: {second}\n")));
    assert_eq!(again("{bogus: 1}"), ["RD0104", "RD0107"]);
    assert_eq!(again("{retry: {tiers: [{delay: soon}]}}"), ["RD0104", "RD0103"]);
    assert_eq!(again("{owner: \"${NO_SUCH_VARIABLE}\"}"), ["RD0104", "RD0122"]);
    // What it lacks may stand in the first one.
    assert_eq!(again("{owner: me}"), ["RD0104"]);
    for lines in ["redrive: {rate: 1/s}\nredrive: {bogus: 1}", "retry: {tiers: []}\nretry: {bogus: 1}"] {
        assert!(codes_in_channel(lines).contains(&"RD0107"), "{lines}: {:?}", codes_in_channel(lines));
    }
    let twice = "version: 1\nbrokers: {m: {url: \"sqlite:a.db\"}, m: {url: \"sqlite:b.db\", bogus: 1}}\n\
                 channels: {a: {source: a}}\nchannels: {b: {bogus: 1}}\n";
    assert_eq!(codes_of(&loaded(twice)), ["RD0104", "RD0107", "RD0104", "RD0107"]);
}

#[test]
fn y08_numbers_with_colons_zeros_and_exponents() {
    assert_eq!(codes_in_channel(&tier("1:30")), ["RD0103"]);
    assert_eq!(good(&in_channel("owner: 22:22")).channels[0].owner.as_ref().unwrap().value, "22:22");
    assert_eq!(good(&in_channel("owner: 1.10")).channels[0].owner.as_ref().unwrap().value, "1.10");
    for bad in ["010", "1e3", "1_000", "0x10", "0o17", ".inf", "1.0", "+3", "-1", "99999999999999999999"] {
        assert_eq!(codes_in_channel(&format!("kafka: {{partitions: {bad}}}")), ["RD0113"], "{bad}");
    }
    assert_eq!(codes_of(&loaded(&in_channel("").replace("version: 1", "version: 1.10"))), ["RD0110"]);
}

#[test]
fn y_booleans_are_strict() {
    for bad in ["yes", "no", "on", "off", "y", "True", "TRUE", "\"true\"", "1"] {
        assert_eq!(codes_in_channel(&format!("shared: {bad}")), ["RD0112"], "{bad}");
    }
    assert!(good(&in_channel("shared: true")).channels[0].shared);
    let text = "version: 1\nbrokers: {local: {url: \"sqlite:a.db\"}}\nchannels: {no: {source: on}}\n";
    assert_eq!(good(text).channels[0].name.value, "no");
}

#[test]
fn y09_merge_keys_are_refused_and_aliases_followed() {
    let merged = "version: 1\nx-defaults: &d {owner: me}\nbrokers: {local: {url: \"sqlite:a.db\"}}\nchannels:\n  a:\n    <<: *d\n    source: a\n";
    assert_eq!(codes_of(&loaded(merged)), ["RD0108"]);
    let alias = "version: 1\nx-retry: &r {tiers: [{delay: 5s}]}\nbrokers: {local: {url: \"sqlite:a.db\"}}\nchannels:\n  a: {source: a, retry: *r}\n  b: {source: b, retry: *r}\n";
    assert_eq!(good(alias).channels[1].tiers[0].name.value, "retry-5s");
}

#[test]
fn y10_alias_bombs_are_stopped_and_honest_aliases_are_not() {
    let mut bomb = "a0: &a0 [x, x]\n".to_owned();
    for level in 1..20 {
        bomb.push_str(&format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1));
    }
    let started = std::time::Instant::now();
    assert_eq!(codes_of(&loaded(&bomb)), ["RD0109"]);
    assert!(started.elapsed() < Duration::from_secs(1));
    let mut merges = "m0: &m0 {a: 1}\n".to_owned();
    for level in 1..18 {
        merges.push_str(&format!("m{level}: &m{level} {{<<: [*m{0}, *m{0}]}}\n", level - 1));
    }
    assert!(codes_of(&loaded(&merges)).contains(&"RD0109"));
    assert!(started.elapsed() < Duration::from_secs(1));
    let deep = format!("a: {}1{}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(!codes_of(&loaded(&deep)).is_empty());
    let mut honest = "version: 1\nbrokers: {local: {url: \"sqlite:a.db\"}}\nx-1: &one {tiers: [{delay: 5s}]}\nx-2: &two 14d\nx-3: &three {rate: 5/s}\nchannels:\n".to_owned();
    for n in 0..17 {
        honest.push_str(&format!(
            "  c{n}: {{source: s{n}, retry: *one, dead_letter: {{retention: *two}}, redrive: *three}}\n"
        ));
    }
    assert_eq!(good(&honest).channels.len(), 17);
}

#[test]
fn y11_unknown_keys_get_the_nearest_one_at_every_level() {
    for (lines, word) in [
        ("sqs: {max_recieve_count: 3}", "did you mean max_receive_count?"),
        ("retry: {tier: [{delay: 5s}]}", "did you mean tiers?"),
        ("max_redrives: 3", "`max_redrives` belongs under `redrive`"),
        ("zzz: 3", "keys here: broker, owner, source"),
        ("x-note: 3", "keys here"),
    ] {
        assert_eq!(codes_in_channel(lines), ["RD0107"], "{lines}");
        assert!(help_of(lines).contains(word), "{}", help_of(lines));
    }
    let text = in_channel("").replace("redrive.db\"", "redrive.db\", passwrod: \"${P}\"");
    let loaded = loaded(&text);
    assert_eq!(codes_of(&loaded), ["RD0107"]);
    assert_eq!(loaded.diagnostics[0].help, ["did you mean password?"]);
}

#[test]
fn y12_unset_empty_and_default_values() {
    let text = in_channel("owner: ${TEAM}");
    assert_eq!(codes_of(&loaded(&text)), ["RD0122"]);
    assert_eq!(codes_of(&loaded_with(&text, &[("TEAM", "")])), ["RD0123"]);
    let team = |text: &str, variables: &[(&str, &str)]| {
        loaded_with(&in_channel(text), variables).topology.unwrap().channels[0]
            .owner
            .as_ref()
            .unwrap()
            .value
            .clone()
    };
    assert_eq!(team("owner: ${TEAM:-host:9092}", &[]), "host:9092");
    assert_eq!(team("owner: a${SFX:-}", &[]), "a");
    assert_eq!(team("owner: $${X}", &[]), "${X}");
    let number = in_channel("kafka:\n  partitions: ${MAX}");
    let three = loaded_with(&number, &[("MAX", "3")]).topology.unwrap();
    assert_eq!(three.channels[0].setting("kafka", "partitions").unwrap().value, Setting::Number(3));
    assert_eq!(codes_of(&loaded_with(&number, &[("MAX", "three")])), ["RD0113"]);
    let broker = in_channel("").replace("redrive.db\"", "redrive.db\", password: \"${NOT_SET}\"");
    let loaded = loaded(&broker);
    assert_eq!(codes_of(&loaded), ["RD0122"]);
    assert_eq!(loaded.counts(), (0, 1));
    let topology = loaded.topology.unwrap();
    assert_eq!(topology.brokers[0].unresolved[0].value, "${NOT_SET}");
    for bad in ["${", "${}", "${a b}", "${1X}"] {
        assert_eq!(codes_in_channel(&format!("owner: \"{bad}\"")), ["RD0126"], "{bad}");
    }
}

#[test]
fn y13_values_arrive_byte_for_byte_and_once() {
    let text = in_channel("owner: ${V}");
    for value in ["pa$$w0rd$HOME", "a: b # c", "two\n\"lines\"", "$2y$10$abc", "${HOME}", "{x: [1"] {
        let topology = loaded_with(&text, &[("V", value), ("HOME", "no")]).topology.unwrap();
        assert_eq!(topology.channels[0].owner.as_ref().unwrap().value, value);
    }
}
