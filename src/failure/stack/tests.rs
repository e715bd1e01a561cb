//! Traces as languages write them, made for this test.

use super::*;

fn classes(text: &str) -> Vec<&str> {
    chain(text).iter().map(|link| link.class.unwrap_or("-")).collect()
}

fn frame(text: &str, own: &[&str]) -> Option<String> {
    let own: Vec<String> = own.iter().map(|prefix| (*prefix).to_owned()).collect();
    own_frame(text, &own).map(|frame| frame.label.into_owned())
}

const JAVA: &str = "org.springframework.kafka.listener.ListenerExecutionFailedException: Listener failed\n\
\tat org.springframework.kafka.X.a(X.java:1)\n\
\tSuppressed: org.springframework.kafka.X$Restored: Restored Stack Trace\n\
\t\tat org.springframework.kafka.X.b(X.java:2)\n\
\tCaused by: com.example.Suppressed: not the cause\n\
\t\tat com.example.No.no(No.java:1)\n\
Caused by: com.example.OrderProcessingException: cannot bill\nsecond line: of the message\n\
\tat com.example.orders.Billing.lambda$bill$3(Billing.java:7)\n\
\t... 11 more\n\
Caused by: java.net.SocketTimeoutException: Read timed out\n\
\tat java.base/sun.nio.ch.NioSocketImpl.timedRead(NioSocketImpl.java:288)\n\
\t... 26 more\n";

#[test]
fn java_looks_through_suppressed_blocks() {
    assert_eq!(language(JAVA), Some(Language::Java));
    assert_eq!(
        classes(JAVA),
        [
            "org.springframework.kafka.listener.ListenerExecutionFailedException",
            "com.example.OrderProcessingException",
            "java.net.SocketTimeoutException"
        ]
    );
    let root = root(JAVA).unwrap();
    assert_eq!((root.class, root.message), (Some("java.net.SocketTimeoutException"), Some("Read timed out")));
    let own = behind(JAVA, |class| class.starts_with("org.springframework.")).unwrap();
    assert_eq!(own.message, Some("cannot bill\nsecond line: of the message"));
    assert_eq!(frame(JAVA, &[]).as_deref(), Some("Billing.bill"));
    assert_eq!(frame(JAVA, &["com.example"]).as_deref(), Some("Billing.bill"));
}

#[test]
fn java_in_other_layouts() {
    let none = "java.lang.NullPointerException\n\tat app//com.example.A$1.run(A.java:3)\n";
    assert_eq!(root(none).unwrap().message, None);
    assert_eq!(own_frame(none, &[]).unwrap().name, "com.example.A$.run");
    let circular = "a.B: x\n\tat a.B.c(B.java:1)\nCaused by: [CIRCULAR REFERENCE: a.B: x]\n";
    assert_eq!(classes(circular), ["a.B"]);
    assert_eq!(root(circular).unwrap().class, Some("a.B"));
    let first = "java.io.IOException: broken\n\tat com.x.R.r(R.java:1)\nWrapped by: com.x.Outer: no\n\tat com.x.O.o(O.java:1)\n";
    assert_eq!(classes(first), ["com.x.Outer", "java.io.IOException"]);
    assert_eq!(root(first).unwrap().class, Some("java.io.IOException"));
    let bare = "java.lang.IllegalStateException: no frames\nCaused by: java.io.IOException: x\n";
    assert_eq!(root(bare).unwrap().class, Some("java.io.IOException"));
    let cut = "\tat com.example.A.b(A.java:1)\n\tat com.example.B.c(B.java:2)";
    assert_eq!(classes(cut), Vec::<&str>::new());
    assert_eq!(frame(cut, &[]).as_deref(), Some("A.b"));
    let proxies = "a.B: x\n\tat com.example.S$$SpringCGLIB$$0.go(<generated>)\n\
        \tat jdk.proxy2/jdk.proxy2.$Proxy12.go(Unknown Source)\n\tat com.example.T.go(T.java:1)\n";
    assert_eq!(frame(proxies, &[]).as_deref(), Some("T.go"));
}

#[test]
fn java_message_that_quotes_an_older_trace() {
    let text = "org.springframework.messaging.MessageHandlingException: error occurred, \
failedMessage=GenericMessage [payload=byte[3], headers={x-exception-stacktrace=org.springframework.messaging.MessageHandlingException: \
old, failedMessage=GenericMessage [payload=1, headers={a=b}]\n\tat org.x.A.b(A.java:1)\nCaused by: com.example.Old: old\n\
\t... 3 more\n, id=1}]\n\tat org.x.A.b(A.java:1)\nCaused by: com.example.New: new\n\t... 3 more\n";
    assert_eq!(classes(text), ["org.springframework.messaging.MessageHandlingException", "com.example.New"]);
}

#[test]
fn python_chains_begin_with_the_cause() {
    let text = "Traceback (most recent call last):\n  File \"/srv/orders/gateway.py\", line 12, in charge\n    raise Declined(x)\n\
orders.gateway.Declined: card declined for order o-1\n\nThe above exception was the direct cause of the following exception:\n\n\
Traceback (most recent call last):\n  File \"/venv/lib/python3.11/site-packages/dramatiq/worker.py\", line 560, in process_message\n    res = actor()\n  \
File \"/srv/orders/tasks.py\", line 19, in process\n    raise RuntimeError\nRuntimeError: order could not be processed\nmore of it\n";
    assert_eq!(classes(text), ["RuntimeError", "orders.gateway.Declined"]);
    assert_eq!(root(text).unwrap().message, Some("card declined for order o-1"));
    assert_eq!(chain(text)[0].message, Some("order could not be processed\nmore of it"));
    assert_eq!(frame(text, &[]).as_deref(), Some("gateway.charge"));
    let bare = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'total'\n";
    assert_eq!(root(bare).unwrap().message, Some("'total'"));
    let none = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nStopIteration\n";
    assert_eq!((root(none).unwrap().class, root(none).unwrap().message), (Some("StopIteration"), None));
}

#[test]
fn dotnet_inner_exceptions() {
    let text = "System.AggregateException: 5 unhandled exceptions (x)\r\n ---> Shop.Declined: card declined\n ---> System.TimeoutException: no answer\n   \
at Shop.Gateway.Call(String a) in /src/G.cs:line 3\n   --- End of inner exception stack trace ---\n   \
at Shop.Orders.Handler.<Handle>d__5.MoveNext() in /src/H.cs:line 33\n   --- End of inner exception stack trace ---\n   \
at System.Threading.Tasks.Task.Wait()\n ---> (Inner Exception #1) Shop.Other: y<---\n";
    assert_eq!(classes(text), ["System.AggregateException", "Shop.Declined", "System.TimeoutException"]);
    assert_eq!(root(text).unwrap().message, Some("no answer"));
    assert_eq!(frame(text, &[]).as_deref(), Some("Gateway.Call"));
    let first = "System.AggregateException: One or more errors occurred. (x) ---> System.IO.IOException: disk full\n   at A.B.C()\n";
    assert_eq!(classes(first), ["System.AggregateException", "System.IO.IOException"]);
    let numbered = "System.AggregateException: two\n ---> (Inner Exception #0) A.B: x\n   at A.B.C()\n";
    assert_eq!(classes(numbered), ["System.AggregateException", "A.B"]);
    let machine = "A.B: x\n   at Shop.Orders.Handler.<Handle>d__5.MoveNext() in /src/H.cs:line 33\n";
    assert_eq!(own_frame(machine, &[]).unwrap().name, "Shop.Orders.Handler.Handle");
    let lambda = "A.B: x\n   at Shop.Orders.Handler.<>c__DisplayClass3_0.<Handle>b__0(Int32 i)\n";
    assert_eq!(own_frame(lambda, &[]).unwrap().name, "Shop.Orders.Handler.Handle");
    assert!(chain("   at Shop.A.B()\n   at Shop.C.D()\n").is_empty());
}

#[test]
fn go_panics() {
    let text = "panic: runtime error: index out of range [1] with length 0 [recovered]\n\ngoroutine 55 [running]:\n\
runtime/debug.Stack()\n\truntime/debug/stack.go:26 +0x5e\npanic({0x8e1380?, 0x100e675a4468?})\n\truntime/panic.go:860 +0x13a\n\
main.(*Biller).bill.func2(0x100e676c2180)\n\t/src/orders/main.go:84 +0xdb\ngithub.com/ThreeDotsLabs/watermill/message.(*Router).run(0x1)\n\
\tx.go:1 +0x2\ncreated by main.main in goroutine 1\n\tmain.go:1\n";
    let root = root(text).unwrap();
    assert_eq!(
        (root.class, root.message),
        (None, Some("runtime error: index out of range [1] with length 0"))
    );
    assert_eq!(own_frame(text, &[]).unwrap().name, "main.(*Biller).bill");
}

#[test]
fn scripts_and_rust() {
    let js = "TypeError: Cannot read properties of undefined (reading 'id')\n    at node:internal/x:1:2\n    at async Biller.charge (/app/src/biller.js:12:5)\n    at /app/node_modules/amqplib/lib/x.js:1:1 {\n  [cause]: Error: socket hang up\n      at Socket.a (node:net:1:1)\n  }\n";
    assert_eq!(classes(js), ["TypeError", "Error"]);
    assert_eq!(root(js).unwrap().message, Some("socket hang up"));
    assert_eq!(frame(js, &[]).as_deref(), Some("biller.Biller.charge"));
    let php = "LogicException: gateway said 51 in /srv/app/src/Gateway.php:11\nStack trace:\n#0 /srv/app/vendor/symfony/x.php(3): App\\Gateway->charge('x')\n#1 {main}\n\nNext App\\Exception\\PaymentDeclined: card declined in /srv/app/src/H.php:9\nStack trace:\n#0 a.php(1): App\\H->__invoke()\n#1 {main}";
    assert_eq!(classes(php), ["App\\Exception\\PaymentDeclined", "LogicException"]);
    assert_eq!(root(php).unwrap().message, Some("gateway said 51"));
    assert_eq!(frame(php, &[]).as_deref(), Some("Gateway->charge"));
    let ruby = "/app/workers/order_worker.rb:14:in `charge': card declined (PaymentDeclined)\n\tfrom /app/workers/order_worker.rb:8:in `work'\n/app/lib/gateway.rb:3:in `call': timeout (Net::ReadTimeout)\n\tfrom x.rb:1:in `y'\n";
    assert_eq!(classes(ruby), ["PaymentDeclined", "Net::ReadTimeout"]);
    assert_eq!(frame(ruby, &[]).as_deref(), Some("order_worker.charge"));
    let rust = "thread 'main' panicked at src/billing.rs:4:5:\nno rate for EUR\nstack backtrace:\n   0: rust_begin_unwind\n             at /rustc/x\n   1: core::panicking::panic_fmt\n   2: billing::orders::bill::{{closure}}\n             at ./src/billing.rs:4:5\n";
    assert_eq!((root(rust).unwrap().class, root(rust).unwrap().message), (None, Some("no rate for EUR")));
    assert_eq!(frame(rust, &[]).as_deref(), Some("orders::bill"));
    let report = "Error: cannot bill\n\nCaused by:\n    0: gateway\n    1: connection refused\n";
    assert_eq!(root(report).unwrap().message, Some("connection refused"));
}

#[test]
fn text_that_is_no_trace_gives_nothing() {
    for text in ["", "order 5: card declined", "a: b", "{\"a\": 1}", "Caused by: x"] {
        assert_eq!(root(text), None, "{text}");
        assert_eq!(own_frame(text, &[]), None, "{text}");
    }
}

#[test]
fn hostile_traces_end() {
    let deep = "a.B: x\n".to_owned() + &"Caused by: a.B: x\n\tat a.b(C.java:1)\n".repeat(20_000);
    assert_eq!(chain(&deep).len(), MOST_LINKS);
    assert!(root(&deep).is_some());
    let arrows = "A.B: x".to_owned() + &"\n ---> A.B: x".repeat(20_000) + "\n   at A.B()";
    assert!(chain(&arrows).len() <= MOST_LINKS);
    let causes = "Error: x\n    at a (b.js:1:1)\n".to_owned() + &"[cause]: ".repeat(20_000);
    assert!(chain(&causes).len() <= MOST_LINKS);
    let joins = "Traceback (most recent call last):\n".to_owned()
        + &"During handling of the above exception, another exception occurred:\n".repeat(20_000);
    assert!(chain(&joins).len() <= MOST_LINKS);
    let failed =
        "a.B: failedMessage=".to_owned() + &"failedMessage=".repeat(20_000) + "\n\tat a.b(C.java:1)\n";
    let _ = (root(&failed), chain(&failed));
}

#[test]
fn causes_are_lines_and_not_words() {
    let text =
        "a.B: x Caused by: no\nCaused by: c.D: y\n\tat c.D.e(D.java:1)\nWrapped by: f.G\n Caused by: no";
    let found: Vec<_> = lines::causes(text).map(|cause| (&text[cause.rest..][..3], cause.wrapped)).collect();
    assert_eq!(found, [("c.D", false), ("f.G", true)]);
    assert_eq!(lines::causes("Caused by: first line").count(), 0);
    assert_eq!((lines::end("ab\nc", 0), lines::end("ab\nc", 3)), (2, 4));
}
