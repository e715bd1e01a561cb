//! Who else gets the copies (rule 9): groups beside the channel's own consumer that read where they go.

use std::os::unix::process::ExitStatusExt;

use super::program::{Shop, all};

#[test]
fn a_target_that_others_read_too_is_refused_and_where_it_is_meant_they_are_named() {
    let Some(shop) = Shop::new("5s") else { return };
    shop.bury(0..9);
    let killed = shop.env.command(&all(&shop, "1000/s")).env("REDRIVE_FAILPOINT", "begun").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9), "{killed:?}");
    let run = shop.latest();
    let audit = format!("audit-of-{}", shop.name);
    shop.app.commit(&audit, &shop.target(), 0);
    let resume = format!("resume {run} --yes --take-over");
    let select = format!("run {} --limit all --dry-run", shop.name);
    let relay = format!("relay {} --once", shop.name);
    for line in [resume.as_str(), &select, &relay] {
        let refused = shop.line(line).exits(4);
        let said = format!("refused: {} is also read by {audit}", shop.target());
        assert!(refused.says(&said), "{line}: {refused}");
    }
    assert!(shop.app.read(&shop.target()).is_empty(), "nobody got anything");
    let topology = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    shop.env.topology(&topology.replace("consumer: billing", "consumer: billing\n    shared: true"));
    let meant = shop.line(&select).ok();
    assert!(meant.says(&format!("also by   {audit}: the 9 letters again (shared)")), "{meant}");
    let _ = shop.line(&resume).ok();
    assert_eq!(shop.app.read(&shop.target()).len(), 9);
}
