//! Amazon SQS, standard and FIFO. [`kind`] is pure and always compiled in.

mod kind;

pub use kind::SqsKind;
