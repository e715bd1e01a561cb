//! What comes out of a [`Ui`].
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn columns() -> [Column; 4] {
    [
        Column::right("LETTERS"),
        Column::left("CAUSE").cuts(),
        Column::left("PAST 24H").drops(1),
        Column::left("ID"),
    ]
}

#[test]
fn tables_align_and_have_no_borders() {
    let (mut ui, captured) = Ui::captured();
    let mut table = Table::new(columns());
    table.row([Cell::bold("131"), "SocketTimeoutException".into(), "...█".into(), Cell::dim("91be4d")]);
    table.row(["61%".into(), "payment gateway".into(), "".into(), "p3o41".into()]);
    ui.table(&table);
    insta::assert_snapshot!(captured.out(), @r"
    LETTERS  CAUSE                   PAST 24H  ID
        131  SocketTimeoutException  ...█      91be4d
        61%  payment gateway                   p3o41
    ");
}

#[test]
fn o03_wide_characters_and_line_breaks_keep_the_columns() {
    let (mut ui, captured) = Ui::captured();
    let mut table = Table::new([Column::left("BODY"), Column::left("ID")]);
    for body in ["ascii", "東京", "👍🏽👍", "e\u{301}", "tab\there", "one\ntwo\nthree"] {
        table.row([body.into(), "x".into()]);
    }
    ui.table(&table);
    let out = captured.out();
    let ends: Vec<usize> = out.lines().map(width).collect();
    assert_eq!(out.lines().count(), 7);
    assert!(ends[1..].iter().all(|end| *end == ends[1]), "{out}");
    assert!(out.contains("one\\ntwo\\nthree"));
}

#[test]
fn narrow_terminals_lose_columns_before_text() {
    let mut table = Table::new(columns());
    table.row(["131".into(), "a rather long cause of death".into(), "............".into(), "91be4d".into()]);
    let at = |width| table.lines(Some(width)).iter().map(|line| line.plain() + "\n").collect::<String>();
    insta::assert_snapshot!(at(70), @r"
    LETTERS  CAUSE                         PAST 24H      ID
        131  a rather long cause of death  ............  91be4d
    ");
    insta::assert_snapshot!(at(50), @r"
    LETTERS  CAUSE                         ID
        131  a rather long cause of death  91be4d
    ");
    insta::assert_snapshot!(at(40), @r"
    LETTERS  CAUSE                    ID
        131  a rather long cause of…  91be4d
    ");
    assert!(table.lines(None).iter().any(|line| line.plain().contains("............")));
}

#[test]
fn a_column_that_folds_goes_on_below_itself() {
    let mut table =
        Table::new([Column::left("WHAT"), Column::left("NAME"), Column::left("DETAIL").folds()]).bare();
    table.row(["~ change".into(), "orders".into(), "retries  a, b, c → a, b, d and some more".into()]);
    table.row(["= keep".into(), "orders.dlq".into()]);
    let at = |width| table.lines(width).iter().map(|line| line.plain() + "\n").collect::<String>();
    insta::assert_snapshot!(at(Some(46)), @r"
    ~ change  orders      retries  a, b, c → a, b,
                            d and some more
    = keep    orders.dlq
    ");
    assert_eq!(at(None).lines().count(), 2);
}

#[test]
fn colour_does_not_move_columns() {
    let mut table = Table::new(columns());
    table.row([Cell::bold("131"), Cell::red("lost"), "".into(), Cell::dim("91be4d")]);
    let lines = table.lines(None);
    assert!(lines.iter().any(|line| line.pieces.contains(&(Style::Red, "lost".to_owned()))));
    let widths: Vec<usize> = lines.iter().map(Line::width).collect();
    assert_eq!(widths, [28, 32]);
}

#[test]
fn notes_and_next_go_to_stderr_and_not_with_json() {
    let (mut ui, captured) = Ui::captured();
    ui.say("answer");
    ui.note("Looked.");
    ui.next(&["redrive", "show", "orders", "it's"]);
    ui.set_format(Format::Json);
    ui.note("hidden");
    ui.next(&["hidden"]);
    ui.flush();
    assert_eq!(captured.out(), "answer\n");
    assert_eq!(captured.err(), "note  Looked.\nnext  redrive show orders 'it'\\''s'\n");
}

#[test]
fn o01_whatever_is_said_is_escaped() {
    let (mut ui, captured) = Ui::captured();
    ui.say(Line::new().bold("\u{1b}[2J").text("\r"));
    ui.tell("\u{202e}");
    assert_eq!(captured.out(), "\\u{1b}[2J\\r\n");
    assert_eq!(captured.err(), "\\u{202e}\n");
}

struct Gone(io::ErrorKind);

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn o05_a_reader_that_left_is_no_trouble_and_a_full_disk_is() {
    for (kind, troubled) in [(io::ErrorKind::BrokenPipe, false), (io::ErrorKind::StorageFull, true)] {
        let mut ui =
            Ui::new(Terminal::default(), Box::new(Gone(kind)), Box::new(io::sink()), Box::new(io::empty()));
        ui.say("answer");
        assert!(ui.closed());
        assert_eq!(ui.finish().is_some(), troubled);
    }
}

#[test]
fn a_question_without_a_terminal_has_no_answer() {
    let (mut ui, captured) = Ui::captured();
    assert_eq!(ui.ask("Send 119 letters? [y/N]"), Answer::Nobody);
    assert_eq!(captured.err(), "");
    let terminal = Terminal { answers: true, ..Terminal::default() };
    let mut ui = Ui::new(terminal, Box::new(io::sink()), Box::new(io::sink()), Box::new(&b"y\r\nrest"[..]));
    assert_eq!(ui.ask("?"), Answer::Said("y".to_owned()));
}
