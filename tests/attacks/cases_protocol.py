"""Corpus §5: what a worker may put on its pipes, and what becomes of it."""

# ruff: noqa: E501 - sources of handlers are data, and break where their language wants

from __future__ import annotations

from collections.abc import Callable

from tests.attacks.model import Case, Ran

__all__ = ["CASES"]

CRASHED = ("worker_crashed",)


def _says(*words: str) -> Callable[[Ran], str | None]:
    def check(ran: Ran) -> str | None:
        missing = [w for w in words if w not in ran.text]
        return f"{missing} not in {ran.text[:300]!r}" if missing else None

    return check


def _wire(id_: str, title: str, body: str, *words: str, codes: tuple[str, ...] = CRASHED) -> Case:
    return Case(id_, title, "wire", body, codes=codes, check=_says(*words))


def _accepted(id_: str, title: str, body: str) -> Case:
    """The positive side: what is allowed arrives."""
    return Case(id_, title, "wire", body, codes=("ok",))


def _value(id_: str, title: str, value: str, *words: str, codes: tuple[str, ...] = CRASHED) -> Case:
    return _wire(id_, title, f"begin(); send(result({value})); hang()", *words, codes=codes)


_HONEST = "begin(); send(result(GOOD)); hang()"

CASES: tuple[Case, ...] = (
    Case(
        "W00.good",
        "an honest scripted worker is served",
        "wire",
        _HONEST,
        check=lambda ran: None if ran.facts["usable"] else "not usable afterwards",
    ),
    Case(
        "W01.js",
        "print forged frames",
        "js",
        """console.log('{"t":"result","id":1,"value":"forged"}');
  fs.writeSync(1, Buffer.from([0, 0, 0, 5, 0x81, 0xa1, 0x74, 0xa1, 0x78]));
  fs.writeSync(2, '\\x1b[2Jpanic\\n'); return json({ '=x': 1 });""",
        check=lambda ran: None if "forged" in ran.last.logs["stdout"] else "not captured",
    ),
    Case(
        "W01.py",
        "print forged frames in Python",
        "py",
        "print('{\"t\":\"result\"}', flush=True)\nos.write(1, b'\\0\\0\\0\\1\\xc1')\nsys.stdout.buffer.write(b'x')",
        check=lambda ran: None if "result" in ran.last.logs["stdout"] else "not captured",
    ),
    Case(
        "W02.js",
        "flood stdout",
        "js",
        "for (;;) fs.writeSync(1, 'x'.repeat(65536));",
        codes=("output_limit", "timeout"),
    ),
    Case(
        "W02.stderr",
        "flood stderr",
        "py",
        "while True: os.write(2, b'y' * 65536)",
        codes=("output_limit", "timeout"),
    ),
    Case(
        "W02.lines",
        "a flood of tiny lines",
        "py",
        "while True: os.write(1, b'\\n')",
        codes=("output_limit", "timeout"),
        timeout=0.8,
    ),
    Case(
        "W02.once",
        "print 1 MB and return",
        "py",
        "os.write(1, b'z' * (1 << 20)) if os.set_blocking(1, True) is None else None",
        check=lambda ran: (
            None
            if len(ran.last.logs["stdout"]) < 70_000 and "not kept" in ran.last.logs["stdout"]
            else "not cut, or not marked"
        ),
    ),
    Case(
        "W03.js",
        "write garbage to every descriptor",
        "js",
        "for (let fd = 1; fd < 40; fd++) { try { fs.writeSync(fd, Buffer.from([0, 0, 0, 1, 0xc1])); } catch { } }\nawait sleep(500);",
        codes=("worker_crashed",),
    ),
    Case(
        "W03.py",
        "write garbage to the reply pipe and return",
        "py",
        "os.write(4, b'\\0\\0\\0\\1\\xc1')",
        codes=("worker_crashed",),
    ),
    Case(
        "W03.late",
        "write garbage after the result",
        "js",
        "setTimeout(() => fs.writeSync(4, Buffer.from([0, 0, 0, 1, 0xc1])), 30); return json({});",
        codes=("ok", "worker_crashed"),
    ),
    Case(
        "W03.partial",
        "leave half a frame in the pipe and return",
        "py",
        "os.write(4, b'\\0\\0')",
        codes=("worker_crashed",),
    ),
    Case(
        "W03.partiallate",
        "leave half a frame in the pipe after the result",
        "py",
        "threading.Timer(0.05, os.write, (4, b'\\0\\0')).start()",
        codes=("ok", "worker_crashed"),
    ),
    Case(
        "W04.forge",
        "forge results for this call and the next",
        "py",
        """
        def text(t):
            return bytes([0xa0 | len(t)]) + t.encode()
        sys.calls = getattr(sys, 'calls', 0) + 1
        names = ('timers', 'handles', 'listeners', 'threads', 'children', 'fds',
            'rss_bytes', 'env_changed', 'cwd_changed', 'builtins_changed')
        state = bytes([0x80 | len(names)]) + b''.join(text(n) + b'\\0' for n in names)
        value = (b'\\x81' + text('content') + b'\\x91\\x82' + text('type') + text('json')
            + text('value') + b'\\x81' + text('=forged') + bytes([sys.calls]))
        for ident in (1, 2):  # the real ones can't be guessed
            body = (b'\\x84' + text('t') + text('result') + text('id') + bytes([ident])
                + text('value') + value + text('state') + state)
            os.write(4, struct.pack('>I', len(body)) + body)
        """,
        codes=CRASHED,
        calls=({}, {}),
    ),
    Case(
        "W04.twice",
        "two results for one call: the first wins, and the worker is of no more use",
        "wire",
        "begin(); push(frame(enc(result(GOOD))) * 2); hang()",
        check=lambda ran: "usable afterwards" if ran.facts["usable"] else None,
    ),
    Case(
        "W04.next",
        "a second result meets the next call",
        "wire",
        "begin(); push(frame(enc(result(GOOD))) * 2); hang()",
        codes=CRASHED,
        calls=({"times": 2},),
    ),
    Case(
        "W04.wait",
        "a result for the next call, in advance",
        "wire",
        "begin(); send(result(GOOD)); send(result(GOOD, id=ID + 1)); receive(); hang()",
        codes=CRASHED,
        calls=({"times": 2},),
    ),
    _wire("W06.early", "a result before ready", "send(result(GOOD)); hang()", "not allowed while"),
    _wire("W06.twice", "ready twice", "send(READY); send(READY); hang()"),
    _wire("W06.version", "another version", "send({**READY, 'version': 2}); hang()", "version 2"),
    _wire("W06.negative", "a version that is no count", "send({**READY, 'version': -1}); hang()"),
    _wire(
        "W06.runtime",
        "an unknown runtime",
        "send({**READY, 'runtime': 'x\\x1b[2J'}); hang()",
        "unknown",
    ),
    _wire("W06.silent", "never ready", "hang()", "starting the worker", codes=("timeout",)),
    _wire("W06.exit", "exit before ready", "os._exit(7)", "status 7"),
    _wire(
        "W06.loadedfirst",
        "loaded before load",
        "send(READY); send(LOADED); receive(); hang()",
        # It names no call, so one that arrives just after the request is an answer to it.
        codes=(*CRASHED, "timeout"),
    ),
    _wire(
        "W06.noload",
        "never loaded",
        "send(READY); receive(); hang()",
        "importing",
        codes=("timeout",),
    ),
    _wire(
        "W06.exports",
        "exports nobody knows",
        "send(READY); receive(); send({**LOADED, 'exports': ['handler', 'x']}); hang()",
        "unknown name",
    ),
    _wire(
        "W06.noexports",
        "no handler",
        "send(READY); receive(); send({**LOADED, 'exports': []}); hang()",
    ),
    _wire(
        "W06.callfirst",
        "a result instead of loaded",
        "send(READY); receive(); send(result(GOOD)); hang()",
    ),
    _wire(
        "W07.huge",
        "a length of 4 GB",
        "begin(); push(b'\\xff\\xff\\xff\\xff'); hang()",
        "4294967295",
    ),
    _wire("W07.zero", "a length of 0", "begin(); push(b'\\0\\0\\0\\0'); hang()", "empty"),
    _wire("W07.sign", "a length with the top bit", "begin(); push(b'\\x80\\0\\0\\0'); hang()"),
    _wire("W07.text", "a length in text", "begin(); push(b'12\\r\\n{}'); hang()"),
    _wire(
        "W07.header",
        "an array header for 4 billion items",
        "begin(); push(frame(b'\\xdd\\xff\\xff\\xff\\xff')); hang()",
    ),
    _wire(
        "W07.map",
        "a map header for 4 billion items",
        "begin(); push(frame(b'\\xdf\\xff\\xff\\xff\\xff')); hang()",
    ),
    _wire(
        "W07.string",
        "a string header for 4 GB",
        "begin(); push(frame(b'\\xdb\\xff\\xff\\xff\\xff')); hang()",
    ),
    Case(
        "W08.limit",
        "a frame of exactly the limit",
        "wire",
        "begin(); n = MAX_BODY - len(enc(result(''))); send(result('x' * n)); hang()",
        check=lambda ran: None if len(ran.report["=value"]) > 1_000_000 else "cut",
        rss_mb=20,
    ),
    _wire(
        "W08.over",
        "a frame one byte over the limit",
        "begin(); n = MAX_BODY - len(enc(result(''))) + 1; send(result('x' * n)); hang()",
        "bytes are allowed",
    ),
    _wire(
        "W09.eof",
        "half a frame, then the end",
        "begin(); push(frame(enc(result(GOOD)))[:20]); os._exit(0)",
    ),
    _wire(
        "W09.silence",
        "half a frame, then silence",
        "begin(); push(frame(enc(result(GOOD)))[:20]); hang()",
        codes=("timeout",),
    ),
    _wire(
        "W09.drip",
        "a frame byte by byte, too slowly",
        "begin()\nfor b in frame(enc(result('x' * 9000))):\n    push(bytes([b])); time.sleep(0.01)",
        codes=("timeout",),
    ),
    _accepted(
        "W09.pieces",
        "a frame byte by byte, in time",
        "begin()\nfor b in frame(enc(result(GOOD))): push(bytes([b]))\nhang()",
    ),
    _wire(
        "W11.progress",
        "100,000 progress frames",
        "begin(); f = frame(enc({'t': 'progress', 'id': ID, 'value': 0})) * 1000\nfor _ in range(100): push(f)\nhang()",
        "frames",
    ),
    _wire(
        "W11.request",
        "100,000 requests",
        "begin(); f = b''.join(frame(enc({'t': 'request', 'id': ID, 'rid': i, 'method': 'x', 'params': None})) for i in range(20000))\npush(f); hang()",
        codes=(*CRASHED, "timeout"),
    ),
    _wire(
        "W11.unread",
        "requests whose answers are never read",
        "begin()\nfor i in range(9000): send({'t': 'request', 'id': ID, 'rid': i, 'method': 'x' * 100, 'params': None})\nhang()",
        codes=("timeout", *CRASHED),
    ),
    _wire(
        "W11.pong",
        "pongs nobody asked for",
        "begin()\nfor i in range(1000): send({'t': 'pong', 'id': ID})\nhang()",
    ),
    _value("W12.utf8", "a string that is no UTF-8", "Raw(b'\\xa2\\xff\\xfe')", "UTF-8"),
    _value("W12.surrogate", "a lone surrogate", "'\\ud800'", "UTF-8"),
    _value("W12.overlong", "an overlong encoding", "Raw(b'\\xa2\\xc0\\x80')", "UTF-8"),
    _wire(
        "W12.utf16", "a message in UTF-16", "begin(); push(frame('{}'.encode('utf-16'))); hang()"
    ),
    _wire(
        "W12.key", "a key that is no UTF-8", "begin(); push(frame(b'\\x81\\xa1\\xff\\xc0')); hang()"
    ),
    _accepted(
        "W12.nul",
        "NUL and a BOM inside a string are data",
        "begin(); send(result('\\0\\ufeff')); hang()",
    ),
    _value("W13.array", "nested 100,000 deep", "Raw(b'\\x91' * 100000 + b'\\xc0')", "nested"),
    _value(
        "W13.map", "maps nested 100,000 deep", "Raw(b'\\x81\\xa1a' * 100000 + b'\\xc0')", "nested"
    ),
    _value("W13.over", "nested one level too deep", "Raw(b'\\x91' * 66 + b'\\xc0')", "deep"),
    _accepted(
        "W13.limit",
        "nested as deep as allowed",
        "begin(); send(result(Raw(b'\\x91' * 62 + b'\\xc0'))); hang()",
    ),
    _value("W14.nan", "NaN", "float('nan')", "not JSON"),
    _value("W14.inf", "Infinity", "float('-inf')", "not JSON"),
    _value("W14.large", "an integer over 2**53", "2 ** 53", "2**53"),
    _value("W14.most", "the largest integer there is", "2 ** 64 - 1", "2**53"),
    _value("W14.least", "the smallest integer there is", "-2 ** 63", "2**53"),
    _accepted(
        "W14.edge",
        "the largest safe integer",
        "begin(); send(result([2 ** 53 - 1, -0.0, 1e308])); hang()",
    ),
    _wire(
        "W15.id",
        "the id twice",
        "begin(); send(Pairs([*result(GOOD).items(), ('id', 1)])); hang()",
        "twice",
    ),
    _wire(
        "W15.type",
        "the type twice",
        "begin(); send(Pairs([('t', 'pong'), *result(GOOD).items()])); hang()",
        "twice",
    ),
    _value("W15.value", "a key of the value twice", "Pairs([('a', 1), ('a', 2)])", "twice"),
    _wire(
        "W16.extra", "an extra key", "begin(); send(result(GOOD, more=1)); hang()", "unknown key"
    ),
    _wire(
        "W16.proto",
        "the key __proto__",
        "begin(); send(result(GOOD, __proto__={})); hang()",
        "unknown key",
    ),
    _wire(
        "W16.missing",
        "a missing key",
        "begin(); r = result(GOOD); del r['state']; send(r); hang()",
        "lacks",
    ),
    _wire("W16.boolid", "a boolean id", "begin(); send(result(GOOD, id=True)); hang()"),
    _wire("W16.textid", "an id in text", "begin(); send(result(GOOD, id='1')); hang()"),
    _wire(
        "W16.floatid", "an id that is a float", "begin(); send(result(GOOD, id=float(ID))); hang()"
    ),
    _wire("W16.otherid", "another call's id", "begin(); send(result(GOOD, id=99)); hang()"),
    _wire("W16.zeroid", "the id 0", "begin(); send(result(GOOD, id=0)); hang()"),
    _wire(
        "W16.unknown",
        "an unknown type",
        "begin(); send({'t': 'exec', 'id': ID}); hang()",
        "unknown",
    ),
    _wire("W16.notype", "no type", "begin(); send({'id': ID}); hang()", "no type"),
    _wire("W16.array", "an array instead of a map", "begin(); send([1]); hang()", "not a map"),
    _wire("W16.nil", "nil", "begin(); push(frame(b'\\xc0')); hang()", "not a map"),
    _wire(
        "W16.trailing",
        "bytes after the map",
        "begin(); push(frame(enc(result(GOOD)) + b'\\xc0')); hang()",
        "follow",
    ),
    _wire(
        "W16.state",
        "a state with a negative count",
        "begin(); send(result(GOOD, state={**STATE, 'fds': -1})); hang()",
    ),
    _wire(
        "W16.statekey",
        "a state with another key",
        "begin(); send(result(GOOD, state={**STATE, 'x': 1})); hang()",
    ),
    _wire(
        "W16.statebool",
        "a state with a boolean",
        "begin(); send(result(GOOD, state={**STATE, 'fds': True})); hang()",
    ),
    _value("W16.ext", "an extension type", "Raw(b'\\xd4\\x01\\x00')"),
    _value("W16.time", "a timestamp", "Raw(b'\\xd6\\xff\\x00\\x00\\x00\\x00')"),
    _value("W16.bin", "binary data", "b'xx'"),
    _value("W16.intkey", "a key that is a number", "Pairs([(1, 2)])"),
    _value("W16.nilkey", "a key that is nil", "Pairs([(None, 2)])"),
    _value("W16.reserved", "the byte that means nothing", "Raw(b'\\xc1')"),
    _value("W16.values", "200,000 values", "Raw(b'\\xdd\\x00\\x03\\x0d\\x40' + b'\\x00' * 200000)"),
    _value(
        "W16.empties",
        "100,001 empty maps in nested arrays",
        "[Raw(b'\\xdc\\xff\\xff' + b'\\x80' * 65535)] * 3",
    ),
    Case(
        "W18.py",
        "close the reply pipe and go on",
        "py",
        "os.close(4)\ntime.sleep(99)",
        codes=CRASHED,
    ),
    Case(
        "W18.js",
        "close every pipe of the protocol and go on",
        "js",
        "for (const fd of [3, 4, 5]) { try { fs.closeSync(fd); } catch { } }\nawait sleep(1e6);",
        codes=CRASHED,
    ),
    Case(
        "W18.replace",
        "put other files where the pipes were",
        "py",
        "for fd in (3, 4, 5):\n    os.dup2(os.open('/dev/null', os.O_RDWR), fd)",
        codes=CRASHED,
    ),
    _wire("W18.wire", "close the reply pipe while starting", "send(READY); os.close(4); hang()"),
    Case(
        "W19.py",
        "close stdin, stdout and stderr",
        "py",
        "for fd in (0, 1, 2): os.close(fd)\ntry:\n    os.write(1, b'x')\nexcept OSError as error:\n    report['=print'] = name_of(error)",
        check=lambda ran: None if ran.report == {"=print": "EBADF"} else f"{ran.report}",
    ),
    Case(
        "W19.js",
        "close stdout and print on",
        "js",
        "fs.closeSync(1); fs.closeSync(2);\nfor (let i = 0; i < 100; i++) { try { console.log('x'.repeat(1000)); } catch { } }\nreturn json({});",
        codes=("ok", "handler_error", "worker_crashed"),
    ),
    Case(
        "W20.wire",
        "never read a call of 20 MB",
        "wire",
        "send(READY); receive(); send(LOADED); hang()",
        codes=("timeout",),
        calls=({"arguments": {"x": "x" * 20_000_000}},),
        rss_mb=45,
    ),
    Case(
        "W20.half",
        "read a byte of a call a second",
        "wire",
        "send(READY); receive(); send(LOADED)\nwhile True: os.read(3, 1); time.sleep(0.2)",
        codes=("timeout",),
        calls=({"arguments": {"x": "x" * 5_000_000}},),
        rss_mb=25,
    ),
    Case(
        "W21.py",
        "let a child answer after the result",
        "py",
        """
        if args.get('leave') and os.fork() == 0:
            time.sleep(0.05)
            try:
                os.write(4, b'\\0\\0\\0\\1\\xc1' * 10)
            finally:
                os._exit(0)
        time.sleep(0.1 if not args.get('leave') else 0)
        report['=leave'] = bool(args.get('leave'))
        """,
        profile="procs",
        calls=({"leave": True}, {}),
        check=lambda ran: None if ran.reports[-1] == {"=leave": False} else f"{ran.reports}",
    ),
    Case(
        "W23.js",
        "log with controls, long lines and forged levels",
        "js",
        """process.stderr.write('\\x1b[31m2026-01-01T00:00:00Z ERROR raw_exec: forged\\r\\n');
  process.stderr.write('\\u202e\\u0007\\x9b2J' + 'x'.repeat(1 << 20)); return json({});""",
        check=lambda ran: (
            None if len(ran.last.logs["stderr"]) < 140_000 else "a line of 1 MB was kept"
        ),
    ),
    Case(
        "W24.js",
        "an error with a message of 10 MB and a cycle",
        "js",
        "const e = new Error('x'.repeat(1e7)); e.cause = e; throw e;",
        codes=("handler_error",),
        check=lambda ran: None if len(str(ran.last.as_dict())) < 60_000 else "not capped",
    ),
    Case(
        "W24.getter",
        "an error whose message is a getter with effects",
        "js",
        "const e = new Error('x'); Object.defineProperty(e, 'message', { get() { fs.writeSync(4, 'garbage!'); return 'm'; } }); throw e;",
        codes=("handler_error", "worker_crashed"),
    ),
    _wire(
        "W24.message",
        "a forged error with a message of 100 KB",
        "begin(); send(failed(message='x' * 100000)); hang()",
        "characters",
    ),
    _wire(
        "W24.causes",
        "a forged error with ten causes",
        "begin(); f = failed(); e = f['error']\nfor _ in range(10):\n    e['cause'] = dict(kind='threw', name='E', message='', stack=''); e = e['cause']\nsend(f); hang()",
        "causes",
    ),
    _wire(
        "W24.kind",
        "a forged error of an unknown kind",
        "begin(); send(failed(kind='timeout')); hang()",
        "unknown kind",
    ),
    _wire(
        "W24.name",
        "a forged error with a hostile name",
        "begin(); send(failed(name='\\x1b[2J' * 200)); hang()",
        "characters",
    ),
    _wire(
        "W26.progress",
        "progress for ever",
        "begin()\nwhile True: send({'t': 'progress', 'id': ID, 'value': 0}); time.sleep(0.002)",
        codes=("timeout",),
    ),
    _wire(
        "W26.request",
        "requests for ever",
        "begin(); i = 0\nwhile True: i += 1; send({'t': 'request', 'id': ID, 'rid': i, 'method': 'x', 'params': 0}); time.sleep(0.002)",
        codes=("timeout",),
    ),
    _wire(
        "W26.result",
        "heartbeats while starting",
        "while True: send({'t': 'progress', 'id': 0, 'value': 0})",
    ),
)
