//! Stack traces and messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let _ = redrive::failure::stack::chain(&text);
    let _ = redrive::failure::stack::root(&text);
    let _ = redrive::failure::stack::own_frame(&text, &["com.example".to_owned()]);
    let _ = redrive::failure::normalise(&text);
});
