//! Secrets never come out of a topology, by whatever way they went in.

use super::*;

const CANARY: &str = "S3cr3t-Canary";

fn with_broker(broker: &str) -> String {
    format!("version: 1\nbrokers:\n  b: {broker}\nchannels:\n  o: {{source: o}}\n")
}

fn nowhere(loaded: &Loaded) {
    assert!(!loaded.source.contains(CANARY), "{}", loaded.source);
    let said = format!("{loaded:?} {:#?}", loaded.topology);
    assert!(!said.contains(CANARY), "{said}");
}

#[test]
fn a_password_in_a_url_is_an_error_that_does_not_show_it() {
    for broker in [
        "{url: \"amqp://ops:S3cr3t-Canary@h/prod\"}",
        "{url: amqp://ops:S3cr3t-Canary@h/prod}",
        "\n    url: 'amqp://ops:S3cr3t-Canary@h:99999999/%zz'",
        "{url: \"amqp://ops:S3cr3t-Canary@[\"}",
        "{url: \"amqp://ops:${P:-S3cr3t-Canary}@h\"}",
        "{url: \"kafka://k\", options: {x: \"http://u:S3cr3t-Canary@proxy\"}}",
    ] {
        let text = with_broker(broker);
        let loaded = loaded(&text);
        assert!(codes_of(&loaded).contains(&"RD0120"), "{broker}: {:?}", codes_of(&loaded));
        assert_eq!(loaded.source.len(), text.len());
        nowhere(&loaded);
    }
}

#[test]
fn a_password_is_found_and_hidden_even_if_the_file_is_no_yaml() {
    let text = "version: 1\nbrokers: {b: {url: \"amqp://ops:S3cr3t-Canary@h/prod\"\npassword: S3cr3t-Canary\n  x: [\n";
    let loaded = loaded(text);
    let codes = codes_of(&loaded);
    assert!(codes.contains(&"RD0100") && codes.contains(&"RD0120"), "{codes:?}");
    nowhere(&loaded);
}

#[test]
fn a_secret_written_out_is_an_error_that_does_not_show_it() {
    for broker in [
        "{url: \"amqp://h\", password: S3cr3t-Canary}",
        "{url: \"amqp://h\", password: \"S3cr3t-Canary\"}",
        "\n    url: amqp://h\n    password: |\n      S3cr3t-Canary",
        "\n    url: amqp://h\n    password: >-\n      some\n      S3cr3t-Canary",
        "{url: \"amqp://h\", password: \"${P:-S3cr3t-Canary}\"}",
        "{url: \"amqp://h\", password: \"S3cr3t-Canary${P}\"}",
        "{url: \"kafka://k\", options: {ssl.key.pem: S3cr3t-Canary}}",
        "{url: \"kafka://k\", options: {my.api.token: \"S3cr3t-Canary\"}}",
    ] {
        let loaded = loaded(&with_broker(broker));
        assert!(codes_of(&loaded).contains(&"RD0121"), "{broker}: {:?}", codes_of(&loaded));
        nowhere(&loaded);
    }
}

#[test]
fn x02_debug_shows_no_secret_from_the_environment() {
    let text = with_broker("{url: \"${AMQP_URL}\", options: {heartbeat: \"${HB}\"}}");
    let loaded = loaded_with(&text, &[("AMQP_URL", "amqp://ops:S3cr3t-Canary@h/prod"), ("HB", CANARY)]);
    let broker = &loaded.topology.as_ref().unwrap().brokers[0];
    assert_eq!(broker.password.as_ref().unwrap().expose(), Some(CANARY));
    assert_eq!(broker.url.value, "amqp://h/prod");
    nowhere(&loaded);
}

#[test]
fn a_login_is_given_once() {
    let text = with_broker("{url: \"${AMQP_URL}\", password: \"${P}\"}");
    let loaded = loaded_with(&text, &[("AMQP_URL", "amqp://ops:S3cr3t-Canary@h/prod"), ("P", "x")]);
    assert_eq!(codes_of(&loaded), ["RD0127"]);
    nowhere(&loaded);
}

#[cfg(unix)]
#[test]
fn x05_a_secret_file_that_others_can_read_is_warned_about() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mq-password");
    std::fs::write(&path, format!("{CANARY}\n")).unwrap();
    std::fs::write(
        folder.path().join("redrive.yaml"),
        with_broker("{url: \"amqp://h\", password: \"${file:mq-password}\"}"),
    )
    .unwrap();
    for (mode, codes) in [(0o600, vec![]), (0o640, vec![]), (0o644, vec!["RD0125"])] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let loaded = load_file(&folder.path().join("redrive.yaml"), &|_| None).unwrap();
        assert_eq!(codes_of(&loaded), codes, "{mode:o}");
        assert_eq!(
            loaded.topology.as_ref().unwrap().brokers[0].password.as_ref().unwrap().expose(),
            Some(CANARY)
        );
        nowhere(&loaded);
    }
    std::fs::remove_file(&path).unwrap();
    let loaded = load_file(&folder.path().join("redrive.yaml"), &|_| None).unwrap();
    assert_eq!((codes_of(&loaded), loaded.counts()), (vec!["RD0124"], (0, 1)));
    assert_eq!(loaded.topology.unwrap().brokers[0].unresolved.len(), 1);
}
