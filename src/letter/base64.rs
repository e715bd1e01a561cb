//! Base64, at home in one place: how bytes stand in texts that others wrote, with or without line breaks and
//! padding.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);

/// With padding, without line breaks.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Exactly the bytes that were encoded, whether the text is broken into lines or not (R21). `None` if it is
/// no base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    if text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        let whole: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        STANDARD.decode(whole).ok()
    } else {
        STANDARD.decode(text).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn r21_line_breaks_and_padding_do_not_matter() {
        let bytes: Vec<u8> = (0..=255).chain(0..=255).collect();
        let text = encode(&bytes);
        assert_eq!(decode(&text).unwrap(), bytes);
        for width in [60, 76] {
            for end in ["\n", "\r\n"] {
                let lines: Vec<&str> =
                    text.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
                assert_eq!(decode(&(lines.join(end) + end)).unwrap(), bytes);
            }
        }
        assert_eq!(decode(encode(b"a").trim_end_matches('=')).unwrap(), b"a");
        assert_eq!(decode("").unwrap(), b"");
        for bad in ["{}", "a", "ab\0c", "é"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
