//! The codes of problems in a topology: one constant each. `explain` has a page for each of them.

use crate::diagnostic::Code;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: Code = Code($code);)*
        /// Every code of this file.
        pub static ALL: &[Code] = &[$($name),*];
    };
}

codes! {
    /// Not YAML.
    SYNTAX = "RD0100";
    /// Not UTF-8 text.
    NOT_TEXT = "RD0101";
    /// A value of the wrong kind.
    KIND = "RD0102";
    /// A duration without a unit, or not a duration.
    DURATION = "RD0103";
    /// Given twice.
    TWICE = "RD0104";
    /// A required key is missing.
    MISSING = "RD0105";
    /// A key has no value, or an empty one.
    EMPTY = "RD0106";
    /// Not a key.
    UNKNOWN_KEY = "RD0107";
    /// A merge key.
    MERGE_KEY = "RD0108";
    /// Too many values, too deep, too many bytes.
    TOO_BIG = "RD0109";
    /// A version of the format that this build does not read.
    VERSION = "RD0110";
    /// More than one document.
    DOCUMENTS = "RD0111";
    /// Not `true` or `false`.
    BOOLEAN = "RD0112";
    /// Not a whole number, or outside its range.
    NUMBER = "RD0113";
    /// Not one of the words.
    WORD = "RD0114";
    /// Not a rate.
    RATE = "RD0115";
    /// A duration outside its range.
    DURATION_RANGE = "RD0116";
    /// A key that is no word.
    KEY_KIND = "RD0117";
    /// A YAML tag.
    TAG = "RD0118";
    /// Not a JSON pointer.
    POINTER = "RD0119";
    /// A credential inside a url.
    URL_CREDENTIAL = "RD0120";
    /// A secret written out.
    PLAIN_SECRET = "RD0121";
    /// An unset variable.
    UNSET = "RD0122";
    /// An empty variable.
    EMPTY_VARIABLE = "RD0123";
    /// A secret file that cannot be read.
    SECRET_FILE = "RD0124";
    /// A secret file that others can read.
    OPEN_SECRET_FILE = "RD0125";
    /// Not a reference that can be followed.
    REFERENCE = "RD0126";
    /// A login given twice: in the url's variable and beside it.
    LOGIN_TWICE = "RD0127";
}
