//! The first frame of the application's own code: where a failure belongs, whatever library threw it.
//!
//! Names are normalised, so that a rebuild, a restart or another machine gives the same one: no line
//! numbers, no numbers of lambdas, closures and generated classes, no addresses, no release folders.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::{Language, bounded, language, lines};

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Short, for people: `OrderMapper.toInvoice`.
    pub label: Cow<'a, str>,
    /// The whole name, for comparing: `com.example.orders.OrderMapper.toInvoice`.
    pub name: Cow<'a, str>,
}

/// Packages of runtimes and frameworks, which are nobody's own code.
const LIBRARIES: &[&str] = &[
    // Java
    "java.",
    "javax.",
    "jdk.",
    "sun.",
    "com.sun.",
    "jakarta.",
    "kotlin.",
    "kotlinx.",
    "scala.",
    "akka.",
    "org.springframework.",
    "org.apache.",
    "org.hibernate.",
    "org.postgresql.",
    "org.jboss.",
    "org.eclipse.",
    "org.slf4j.",
    "org.aopalliance.",
    "com.fasterxml.",
    "com.google.",
    "com.zaxxer.",
    "com.mysql.",
    "com.rabbitmq.",
    "io.netty.",
    "io.smallrye.",
    "io.quarkus.",
    "io.vertx.",
    "io.micrometer.",
    "io.opentelemetry.",
    "io.grpc.",
    "io.confluent.",
    "reactor.",
    "okhttp3.",
    "feign.",
    "net.bytebuddy.",
    "ch.qos.",
    "software.amazon.",
    // .NET
    "System.",
    "Microsoft.",
    "MassTransit.",
    "NServiceBus.",
    "Rebus.",
    "EasyNetQ.",
    "Wolverine.",
    "RabbitMQ.",
    "Newtonsoft.",
    "Npgsql.",
    "Polly.",
    "Castle.",
    "GreenPipes.",
    "Confluent.",
    "Amazon.",
    "Dapper.",
    "MediatR.",
    // PHP
    "Symfony\\",
    "Illuminate\\",
    "Doctrine\\",
    "GuzzleHttp\\",
    "Monolog\\",
    "PDO",
    "Composer\\",
    "Laravel\\",
    // Go
    "runtime.",
    "runtime/",
    "reflect.",
    "net/",
    "encoding/",
    "database/",
    "panic(",
    "testing.",
    "sync.",
    // Rust
    "std::",
    "core::",
    "alloc::",
    "tokio::",
    "rust_begin_unwind",
    "__rust",
    "futures",
    "_start",
    "main::",
    "<",
    "lapin::",
    "rdkafka::",
    "anyhow::",
    "serde",
    "hyper::",
    "tower::",
];

/// [`LIBRARIES`] by their first byte: dozens of frames of a trace are asked about.
static LIBRARIES_BY_BYTE: LazyLock<Vec<Vec<&str>>> = LazyLock::new(|| {
    let beginning =
        |byte: u8| LIBRARIES.iter().copied().filter(move |it| it.as_bytes().first() == Some(&byte));
    (0..=u8::MAX).map(|byte| beginning(byte).collect()).collect()
});

/// Folders of libraries, in languages whose frames name files.
const LIBRARY_FOLDERS: &[&str] = &[
    "site-packages",
    "dist-packages",
    "/lib/python",
    "<frozen ",
    "<string>",
    "node_modules",
    "node:",
    "internal/",
    "/gems/",
    "/ruby/",
    "<internal:",
    "/vendor/",
    "/rubygems/",
];

/// The first own frame, from where the innermost cause was thrown outwards. `own_code` holds prefixes of
/// packages, namespaces or folders; empty, or if none of them is in the trace: the first frame that belongs
/// to no known library.
pub fn own_frame<'a>(text: &'a str, own_code: &[String]) -> Option<Frame<'a>> {
    let text = bounded(text);
    let language = language(text)?;
    if !own_code.is_empty() {
        let own = |name: &str, file: &str| own_code.iter().any(|prefix| is_own(prefix, name, file));
        if let Some(frame) = first(language, text, &own) {
            return Some(frame);
        }
    }
    let own = |name: &str, file: &str| {
        !of_a_library(name)
            && (file.is_empty() || !LIBRARY_FOLDERS.iter().any(|folder| file.contains(folder)))
    };
    match language {
        // A frame of a library's package or module is passed over at its first letters.
        Language::Java => java(text, &of_a_library, &own),
        other => first(other, text, &own),
    }
}

fn of_a_library(name: &str) -> bool {
    let first = usize::from(name.bytes().next().unwrap_or_default());
    LIBRARIES_BY_BYTE[first].iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
}

fn is_own(prefix: &str, name: &str, file: &str) -> bool {
    if prefix.is_empty() {
        return false;
    }
    if name.starts_with(prefix) {
        return true;
    }
    // Where frames name files, `com.example` is the folder `com/example`.
    !file.is_empty() && (file.contains(prefix) || file.contains(&prefix.replace(['.', '\\'], "/")))
}

fn first<'a>(language: Language, text: &'a str, own: &dyn Fn(&str, &str) -> bool) -> Option<Frame<'a>> {
    match language {
        Language::Java => java(text, &|_| false, own),
        Language::Python => python(text, own),
        Language::DotNet => text.lines().find_map(|line| dotnet(line, own)),
        Language::Go => go(text, own),
        Language::JavaScript => text.lines().find_map(|line| javascript(line, own)),
        Language::Php => text.lines().find_map(|line| php(line, own)),
        Language::Ruby => text.lines().find_map(|line| ruby(line, own)),
        Language::Rust => text.lines().find_map(|line| rust(line, own)),
    }
}

/// Sections from the innermost cause outwards; in each, the frames from the top. Frames that begin as `skip`
/// says are not looked at any further.
fn java<'a>(
    text: &'a str,
    skip: &dyn Fn(&str) -> bool,
    own: &dyn Fn(&str, &str) -> bool,
) -> Option<Frame<'a>> {
    let mut starts = Vec::with_capacity(4);
    starts.push(0);
    starts.extend(lines::causes(text).filter(|cause| !cause.wrapped).map(|cause| cause.start));
    let mut section_end = text.len();
    for start in starts.into_iter().rev() {
        let mut at = start;
        while at < section_end {
            let end = lines::end(text, at);
            if let Some(line) = text[at..end].strip_prefix("\tat ")
                && !skip(line)
                && let Some(frame) = java_frame(line, own)
            {
                return Some(frame);
            }
            at = end + 1;
        }
        section_end = start;
    }
    None
}

fn java_frame<'a>(line: &'a str, own: &dyn Fn(&str, &str) -> bool) -> Option<Frame<'a>> {
    let whole = &line[..lines::open(line)?];
    // `app//`, `java.base@17/`: loader and module, but not the hidden class `Foo$$Lambda/0x12.run`.
    let name = lines::last(b'/', whole).map_or(whole, |slash| &whole[slash + 1..]);
    if !own(name, "") {
        return None;
    }
    let dollar = whole.as_bytes().contains(&b'$');
    if dollar && (whole.contains("$$") || whole.contains("$Proxy")) || generated(whole) {
        return None;
    }
    if !dollar {
        // Most frames: nothing to take out, and the label is the name's end.
        let label = last_two(name, b'.').trim_start_matches('.');
        return Some(Frame { label: label.into(), name: name.into() });
    }
    let name = without_numbers(name, b'$');
    let label = {
        let mut parts = name.rsplitn(3, '.');
        let method = parts.next().unwrap_or_default();
        let class = parts.next().unwrap_or_default();
        let method = method.strip_prefix("lambda$").unwrap_or(method).trim_end_matches('$');
        let class = class.trim_end_matches('$');
        if class.is_empty() { method.to_owned() } else { format!("{class}.{method}") }
    };
    Some(Frame { label: label.into(), name: name.into() })
}

/// Made by the JDK's reflection. Looked for by its first letter: few frames have one.
fn generated(whole: &str) -> bool {
    const NAME: &[u8] = b"GeneratedMethodAccessor";
    let bytes = whole.as_bytes();
    bytes.windows(NAME.len()).any(|at| at[0] == b'G' && at == NAME)
}

/// Takes the digits behind each `mark` off.
fn without_numbers(name: &str, mark: u8) -> String {
    let mut kept = String::with_capacity(name.len());
    let mut after_mark = false;
    for c in name.chars() {
        after_mark = if after_mark && c.is_ascii_digit() { true } else { c as u32 == u32::from(mark) };
        if !(after_mark && c.is_ascii_digit()) {
            kept.push(c);
        }
    }
    kept
}

/// The innermost block stands first, the innermost frame last in it.
fn python<'a>(text: &'a str, own: &dyn Fn(&str, &str) -> bool) -> Option<Frame<'a>> {
    super::python::blocks(text).find_map(|block| {
        block.lines().rev().find_map(|line| {
            let line = line.trim_start().strip_prefix("File \"")?;
            let (file, tail) = line.split_once("\", line ")?;
            let function = tail.split_once(", in ").map_or("<module>", |(_, function)| function.trim());
            own(function, file).then(|| in_file(file, function))
        })
    })
}

/// A frame named by its file: its last folder and its name, without release numbers.
fn in_file(file: &str, function: &str) -> Frame<'static> {
    let mut parts = file.rsplit(['/', '\\']);
    let last = parts.next().unwrap_or_default();
    let stem = last.split('.').next().unwrap_or(last);
    let folder =
        parts.next().filter(|folder| !folder.bytes().any(|b| b.is_ascii_digit())).unwrap_or_default();
    let label = format!("{stem}.{function}");
    let name = if folder.is_empty() { label.clone() } else { format!("{folder}/{label}") };
    Frame { label: label.into(), name: name.into() }
}

fn dotnet<'a>(line: &'a str, own: &dyn Fn(&str, &str) -> bool) -> Option<Frame<'a>> {
    let line = super::dotnet::call(line)?;
    let name = &line[..line.find('(')?];
    if !own(name, "") {
        return None;
    }
    // `Handler.<Handle>d__5.MoveNext`, `<>c__DisplayClass3_0.<Handle>b__0`: what the compiler made of Handle.
    let mut kept = String::with_capacity(name.len());
    for part in name.split('.') {
        let part = match part.split_once('<').and_then(|(before, rest)| Some((before, rest.split_once('>')?)))
        {
            Some((_, ("", _))) => continue,
            Some(("", (method, _))) => method,
            _ if part == "MoveNext" => continue,
            _ => part.split(['`', '[']).next().unwrap_or(part),
        };
        if !kept.is_empty() {
            kept.push('.');
        }
        kept.push_str(part);
    }
    Some(Frame { label: last_two(&kept, b'.').to_owned().into(), name: kept.into() })
}

/// What is behind the last separator but one, an ASCII byte; all, if there is none.
fn last_two(name: &str, separator: u8) -> &str {
    let before = lines::last(separator, name).and_then(|at| lines::last(separator, &name[..at]));
    before.map_or(name, |at| &name[at + 1..])
}

/// Behind the call of `panic`, if there is one. Modules of other hosts are libraries unless declared own.
fn go<'a>(text: &'a str, own: &dyn Fn(&str, &str) -> bool) -> Option<Frame<'a>> {
    let from = text.find("\npanic(").map_or(0, |at| at + 1);
    let mut library = None;
    for line in text[from..].lines() {
        if line.starts_with(['\t', ' ']) || line.starts_with("goroutine ") || line.starts_with("created by ")
        {
            continue;
        }
        let Some(open) = line.rfind('(') else { continue };
        let name = &line[..open];
        if name.is_empty() || line.starts_with("panic(") || !own(name, "") {
            continue;
        }
        let frame = go_frame(name);
        if name.split('/').next().is_some_and(|host| host.contains('.') && name.contains('/')) {
            library.get_or_insert(frame);
        } else {
            return Some(frame);
        }
    }
    library
}

fn go_frame(name: &str) -> Frame<'static> {
    let mut kept = name.replace("[...]", "");
    while let Some((head, tail)) = kept.rsplit_once('.') {
        let number = tail.strip_prefix("func").unwrap_or(tail);
        let closure = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        if !closure && !tail.starts_with("gowrap") {
            break;
        }
        kept = head.to_owned();
    }
    let label = kept.rsplit('/').next().unwrap_or(&kept).to_owned();
    Frame { label: label.into(), name: kept.into() }
}

fn javascript<'a>(line: &'a str, own: &dyn Fn(&str, &str) -> bool) -> Option<Frame<'a>> {
    let line = line.trim_start().strip_prefix("at ")?;
    let line = line.strip_prefix("async ").unwrap_or(line);
    let line = line.strip_prefix("new ").unwrap_or(line);
    let (function, file) = match line.rsplit_once(" (") {
        Some((function, file)) => (function, file.trim_end_matches(')')),
        None => ("", line),
    };
    let file = file.strip_prefix("file://").unwrap_or(file);
    if file == "<anonymous>" || file == "native" || !own(function, file) {
        return None;
    }
    let mut path = file;
    for _ in 0..2 {
        if let Some((head, tail)) = path.rsplit_once(':')
            && tail.bytes().all(|b| b.is_ascii_digit())
        {
            path = head;
        }
    }
    let function = function.split(" [as ").next().unwrap_or(function);
    let function = function.strip_prefix("Object.").unwrap_or(function);
    let function = if function.is_empty() { "<anonymous>" } else { function };
    Some(in_file(path, function))
}

fn php<'a>(line: &'a str, own: &dyn Fn(&str, &str) -> bool) -> Option<Frame<'a>> {
    let line = line.strip_prefix('#')?;
    let (_, call) = line.split_once(": ")?;
    let name = &call[..call.find('(')?];
    if name.contains("{closure") || !(name.contains('\\') || name.contains("->") || name.contains("::")) {
        return None;
    }
    own(name, "").then(|| {
        let label = name.rsplit('\\').next().unwrap_or(name);
        Frame { label: label.into(), name: name.into() }
    })
}

fn ruby<'a>(line: &'a str, own: &dyn Fn(&str, &str) -> bool) -> Option<Frame<'a>> {
    let line = line.trim_start();
    let line = line.strip_prefix("from ").unwrap_or(line);
    let (place, tail) = line.split_once(":in ")?;
    let (file, number) = place.rsplit_once(':')?;
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) || !own("", file) {
        return None;
    }
    let method = tail.trim_start_matches(['`', '\'']).split('\'').next().unwrap_or_default();
    let method = method.rsplit(" in ").next().unwrap_or(method);
    Some(in_file(file, method))
}

fn rust<'a>(line: &'a str, own: &dyn Fn(&str, &str) -> bool) -> Option<Frame<'a>> {
    let (number, name) = line.trim_start().split_once(": ")?;
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let name = name.trim();
    // `1: Connection refused` is a cause of a report; names have blanks between `<` and `>` only.
    if name.split(['<', '>']).step_by(2).any(|part| part.contains(' ')) {
        return None;
    }
    let name = match name.rsplit_once("::h") {
        Some((head, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => head,
        _ => name,
    };
    let name = name.replace("::{{closure}}", "");
    own(&name, "").then(|| {
        let label = match name.rmatch_indices("::").nth(1) {
            Some((at, _)) => name[at + 2..].to_owned(),
            None => name.clone(),
        };
        Frame { label: label.into(), name: name.into() }
    })
}
