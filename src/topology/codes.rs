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
    /// A broker that is not declared.
    NO_SUCH_BROKER = "RD0130";
    /// No broker can be chosen.
    WHICH_BROKER = "RD0131";
    /// A scheme that no broker has.
    SCHEME = "RD0132";
    /// A channel name that the command line cannot take.
    CHANNEL_NAME = "RD0133";
    /// Tiers that do not grow.
    TIERS_ORDER = "RD0140";
    /// Tiers of the same delay.
    TIERS_SAME = "RD0141";
    /// One name for two queues.
    NAME_TWICE = "RD0142";
    /// Kept for less time than something waits.
    RETENTION_SHORT = "RD0143";
    /// An alert that cannot fire.
    ALERT_NEVER = "RD0144";
    /// `consumer` is not written where others may read the target.
    CONSUMER_UNKNOWN = "RD0145";
    /// A setting that does nothing as things are.
    IDLE = "RD0146";
    /// A name with letters that look like others.
    LOOK_ALIKE = "RD0147";
    /// A delay that the broker cannot do.
    DELAY = "RD0201";
    /// Tiers cannot be served this way.
    SERVED_BY = "RD0202";
    /// A name with letters that the broker refuses.
    NAME_LETTERS = "RD0203";
    /// A name too long for the broker.
    NAME_LENGTH = "RD0204";
    /// A name that the broker keeps for itself.
    NAME_RESERVED = "RD0205";
    /// `return_to` must be written.
    RETURN_TO = "RD0206";
    /// Two names that are one to the broker.
    NAME_COLLIDES = "RD0207";
    /// An option that is not on the list.
    OPTION_UNKNOWN = "RD0208";
    /// An option that would undo a guarantee, load a library or run a program.
    OPTION_REFUSED = "RD0209";
    /// A value that an option does not know.
    OPTION_VALUE = "RD0210";
    /// `retention` is not enforced.
    RETENTION_IGNORED = "RD0211";
    /// A url that the broker cannot use.
    URL = "RD0212";
    /// The virtual host is empty.
    VHOST_EMPTY = "RD0213";
    /// FIFO and standard mixed.
    FIFO_MISMATCH = "RD0214";
    /// `.` and `_` in one topic name.
    NAME_MIXED = "RD0215";
    /// A tier longer than a consumer may be silent.
    POLL_INTERVAL = "RD0216";
    /// A queue that would expire.
    EXPIRES = "RD0217";
    /// A retention that the broker cannot do.
    RETENTION_RANGE = "RD0218";
    /// A broker setting out of its range.
    SETTING_RANGE = "RD0219";
    /// A property that the broker's messages do not have.
    PROPERTY = "RD0220";
    /// Dead-lettered after very few receives.
    FEW_RECEIVES = "RD0221";
    /// Not an account.
    ACCOUNT = "RD0222";
    /// `group: key` where messages have no key.
    NO_KEY = "RD0223";
    /// What is rejected would have no tier, or several.
    REJECTED_TO = "RD0224";
    /// A dead-letter queue that nothing can be taken out of.
    STREAM = "RD0225";
    /// Messages come into view again while they are still handled.
    SHORT_VISIBILITY = "RD0229";
}
