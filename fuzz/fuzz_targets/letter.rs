//! Letters of every family.
#![no_main]

#[path = "../letters.rs"]
mod letters;

libfuzzer_sys::fuzz_target!(|data: &[u8]| letters::handle(&letters::letter_of(data)));
