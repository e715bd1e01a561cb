//! Letters as RabbitMQ gives them: with a route, and tables and lists among the headers.
#![no_main]

#[allow(dead_code, reason = "shared with targets that use the rest")]
#[path = "../letters.rs"]
mod letters;

libfuzzer_sys::fuzz_target!(|data: &[u8]| letters::handle(&letters::letter_of_kind(b'r', data)));
