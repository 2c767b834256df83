"""Corpus §2: no socket of the host is reached, by any family, name or descriptor."""

from __future__ import annotations

from tests.attacks.model import Case, Ran

__all__ = ["CASES"]


def _fast(ran: Ran) -> str | None:
    slow = {k: v for k, v in ran.report.get("=ms", {}).items() if v > 1000}
    return f"slow to fail: {slow}" if slow else None


def _unknown(ran: Ran) -> str | None:
    """A resolver's own words for a name that nobody could be asked about."""
    words = ("EAI_AGAIN", "EAI_NONAME", "ENOTFOUND", "ECONNREFUSED", "herror")
    names = ("=byname", "=byaddr", "=reverse")
    found = {n: v for n, v in ran.report.items() if n in names and v not in words}
    return f"found {found}" if found else _fast(ran)


def _pairs_reach_each_other(ran: Ran) -> str | None:
    """A connected pair can't be re-aimed: the kernel refuses, or heeds no address."""
    report = ran.report
    right = {
        "=pair-stream": ("EISCONN",),
        "=pair-seqpacket": ("leak",),
        "=reconnect": ("EISCONN", "ENOENT"),
    }
    wrong = {name: report[name] for name, codes in right.items() if report[name] not in codes}
    return f"pairs reached elsewhere: {wrong}" if wrong else None


_NODE_NET = """
  const ms = report['=ms'] = {};
  async function timed(name, action) {
    const start = Date.now();
    await attempt(name, action);
    ms[name] = Date.now() - start;
  }
  const connect = (options) => new Promise((ok, no) => {
    const s = net.connect(options, () => { s.write('leak'); ok('connected'); s.destroy(); });
    s.on('error', no);
  });
"""

CASES: tuple[Case, ...] = (
    Case(
        "N01.js",
        "connect by TCP to listeners of this host",
        "js",
        _NODE_NET
        + """
  await timed('v4', () => connect({ port: w.tcp4, host: '127.0.0.1' }));
  await timed('v6', () => connect({ port: w.tcp6, host: '::1' }));
  await timed('any', () => connect({ port: w.tcp4, host: '0.0.0.0' }));
  await timed('mapped', () => connect({ port: w.tcp4, host: '::ffff:127.0.0.1' }));
  await timed('name', () => connect({ port: w.tcp4, host: 'localhost' }));
  await timed('http', () => fetch('http://127.0.0.1:' + w.tcp4));
  await timed('ws', () => new Promise((ok, no) => {
    if (typeof WebSocket === 'undefined') return deny();
    const s = new WebSocket('ws://127.0.0.1:' + w.tcp4); s.onopen = ok;
    s.onerror = () => no({ code: 'DENIED' });
  }));
""",
        check=_fast,
    ),
    Case(
        "N01.py",
        "connect by TCP in every way Python has",
        "py",
        """
        def tcp(family, address, flags=0):
            with socket.socket(family, socket.SOCK_STREAM | flags) as s:
                s.settimeout(1)
                s.connect(address)
                s.send(b'leak')
        attempt('v4', tcp, socket.AF_INET, ('127.0.0.1', w['tcp4']))
        attempt('v6', tcp, socket.AF_INET6, ('::1', w['tcp6']))
        attempt('mapped', tcp, socket.AF_INET6, ('::ffff:127.0.0.1', w['tcp4']))
        attempt('nonblock', tcp, socket.AF_INET, ('127.0.0.1', w['tcp4']), socket.SOCK_NONBLOCK)
        attempt('create', socket.create_connection, ('127.0.0.1', w['tcp4']), 1)
        attempt('url', lambda: __import__('urllib.request').request.urlopen(
            'http://127.0.0.1:%d' % w['tcp4'], timeout=1))
        attempt('fastopen', lambda: socket.socket().sendto(b'leak', 0x20000000,
            ('127.0.0.1', w['tcp4'])))
        attempt('sctp', socket.socket, 2, 1, 132)
        attempt('mptcp', socket.socket, 2, 1, 262)
        attempt('dccp', socket.socket, 2, 6, 33)
        attempt('raw', socket.socket, 2, 3, 1)
        attempt('ping', socket.socket, 2, 2, 1)
        """,
    ),
    Case(
        "N01.procs",
        "connect by TCP with processes granted",
        "py",
        """
        attempt('v4', socket.create_connection, ('127.0.0.1', w['tcp4']), 1)
        attempt('bash', lambda: program('/bin/bash', '-c',
            'echo x > /dev/tcp/127.0.0.1/%d' % w['tcp4']))
        """,
        profile="procs",
    ),
    Case(
        "N01.loopback",
        "reach the host's loopback when a private one is granted",
        "py",
        """
        attempt('v4', socket.create_connection, ('127.0.0.1', w['tcp4']), 1)
        attempt('v6', socket.create_connection, ('::1', w['tcp6']), 1)
        s = socket.create_server(('127.0.0.1', 0))
        attempt('+own', socket.create_connection, s.getsockname(), 1)
        attempt('out', socket.create_connection, ('192.0.2.1', 80), 1)
        s.close()
        """,
        profile="net",
        codes_on={"baseline": ("sandbox_unavailable",)},
        again=False,
    ),
    Case(
        "N02.js",
        "send UDP datagrams",
        "js",
        """
  const send = (type, port, ip) => new Promise((ok, no) => {
    const s = dgram.createSocket(type);
    s.on('error', no);
    s.send('leak', port, ip, (e) => { try { s.close(); } catch {} e ? no(e) : ok('sent'); });
  });
  await attempt('v4', () => send('udp4', w.udp, '127.0.0.1'));
  await attempt('dns', () => send('udp4', 53, '127.0.0.53'));
  await attempt('v6', () => send('udp6', w.udp, '::1'));
  await attempt('mapped', () => send('udp6', w.udp, '::ffff:127.0.0.1'));
""",
    ),
    Case(
        "N02.py",
        "send UDP datagrams, also lite and connected",
        "py",
        """
        def send(family, proto, address):
            s = socket.socket(family, socket.SOCK_DGRAM, proto)
            s.connect(address)
            s.send(b'leak')
        attempt('v4', send, 2, 0, ('127.0.0.1', w['udp']))
        attempt('v6', send, 10, 0, ('::ffff:127.0.0.1', w['udp']))
        attempt('lite', send, 2, 136, ('127.0.0.1', w['udp']))
        attempt('multicast', send, 2, 0, ('224.0.0.251', 5353))
        attempt('broadcast', send, 2, 0, ('255.255.255.255', 9))
        """,
    ),
    Case(
        "N03.js",
        "fetch metadata addresses",
        "js",
        _NODE_NET
        + """
  for (const url of ['http://169.254.169.254/latest/', 'http://[fd00:ec2::254]/',
    'http://metadata.google.internal/', 'http://100.100.100.200/', 'http://2852039166/'])
    await timed(url, () => fetch(url));
""",
        check=_fast,
    ),
    Case(
        "N04.js",
        "look up names",
        "js",
        _NODE_NET
        + """
  const call = (f, ...a) => new Promise((ok, no) => f(...a, (e, v) => e ? no(e) : ok(v)));
  const own = new dns.Resolver({ timeout: 300, tries: 1 });
  own.setServers(['127.0.0.1:' + w.udp]);
  await timed('lookup', () => call(dns.lookup, 'example.invalid'));
  await timed('resolve4', () => call(dns.resolve4, 'example.invalid'));
  await timed('txt', () => call(dns.resolveTxt, 'leak.example.invalid'));
  await timed('=reverse', () => call(own.reverse.bind(own), '192.0.2.1'));
  await timed('service', () => call(dns.lookupService, '192.0.2.1', 80));
  await timed('server', () => call(own.resolve4.bind(own), 'leak.example.invalid'));
""",
        check=_unknown,
        timeout=3.0,
    ),
    Case(
        "N04.py",
        "look up names in Python",
        "py",
        """
        start = time.monotonic()
        attempt('getaddrinfo', socket.getaddrinfo, 'example.invalid', 80)
        attempt('=byname', socket.gethostbyname, 'localhost')
        attempt('=byaddr', socket.gethostbyaddr, '127.0.0.1')
        report['=ms'] = {'all': int((time.monotonic() - start) * 1000)}
        """,
        check=_unknown,
    ),
    Case(
        "N05.js",
        "listen for inbound connections",
        "js",
        """
  const listen = (...a) => new Promise((ok, no) => {
    const s = net.createServer(); s.on('error', no);
    s.listen(...a, () => { ok('listening'); s.close(); });
  });
  await attempt('any', () => listen(0));
  await attempt('v4', () => listen(0, '127.0.0.1'));
  await attempt('v6', () => listen(0, '::1'));
  await attempt('unix', () => listen(scratch + '/s'));
  await attempt('abstract', () => listen('\\0' + w.mark));
  await attempt('udp', () => new Promise((ok, no) => {
    const s = dgram.createSocket('udp4'); s.on('error', no); s.bind(0, () => { ok(); s.close(); });
  }));
""",
    ),
    Case(
        "N05.py",
        "listen without binding, and on unix sockets",
        "py",
        """
        def listen(family, address=None):
            s = socket.socket(family, socket.SOCK_STREAM)
            if address is not None:
                s.bind(address)
            s.listen()
        attempt('unbound', listen, socket.AF_INET)
        attempt('any', listen, socket.AF_INET, ('', 0))
        attempt('v6', listen, socket.AF_INET6, ('::', 0))
        attempt('unix', listen, socket.AF_UNIX, scratch + '/s')
        attempt('autobind', listen, socket.AF_UNIX, '')
        attempt('abstract', listen, socket.AF_UNIX, '\\0' + w['mark'])
        """,
    ),
    Case(
        "N06.py",
        "reach pathname unix sockets outside the grants",
        "py",
        """
        def stream(path, kind=socket.SOCK_STREAM):
            s = socket.socket(socket.AF_UNIX, kind)
            s.connect(path)
            s.send(b'leak')
        attempt('stream', stream, w['unix'])
        attempt('dgram', stream, w['unix_dgram'], socket.SOCK_DGRAM)
        attempt('seqpacket', stream, w['unix'], socket.SOCK_SEQPACKET)
        for name in ('docker.sock', 'dbus/system_bus_socket', 'systemd/private', 'containerd/c'):
            attempt(name, stream, '/run/' + name)
        attempt('log', stream, '/dev/log', socket.SOCK_DGRAM)
        attempt('nscd', stream, '/run/nscd/socket')
        def pair(kind):
            a, b = socket.socketpair(socket.AF_UNIX, kind)
            a.sendto(b'leak', w['unix_dgram'])
            b.setblocking(False)
            return b.recv(9)
        attempt('pair-dgram', pair, socket.SOCK_DGRAM)
        def told(action, *rest):
            try:
                return action(*rest).decode()
            except OSError as error:
                return name_of(error)
        report['=pair-stream'] = told(pair, socket.SOCK_STREAM)
        report['=pair-seqpacket'] = told(pair, socket.SOCK_SEQPACKET)
        def reconnect(kind, path):
            a, b = socket.socketpair(socket.AF_UNIX, kind)
            b.close()
            a.connect(path)
        attempt('reconnect', reconnect, socket.SOCK_DGRAM, w['unix_dgram'])
        report['=reconnect'] = told(reconnect, socket.SOCK_STREAM, w['unix'])
        link = scratch + '/sock'
        os.symlink(w['unix'], link)
        attempt('link', stream, link)
        """,
        check=_pairs_reach_each_other,
    ),
    Case(
        "N06.js",
        "reach pathname and abstract unix sockets from Node",
        "js",
        _NODE_NET
        + """
  await timed('pathname', () => connect({ path: w.unix }));
  await timed('abstract', () => connect({ path: '\\0' + w.abstract }));
""",
    ),
    Case(
        "N06.procs",
        "reach unix sockets with processes granted",
        "py",
        """
        def reach(path, kind=socket.SOCK_STREAM):
            s = socket.socket(socket.AF_UNIX, kind)
            s.connect(path)
            s.send(b'leak')
        attempt('pathname', reach, w['unix'])
        attempt('dgram', reach, w['unix_dgram'], socket.SOCK_DGRAM)
        attempt('abstract', reach, '\\0' + w['abstract'])
        attempt('child', lambda: program(sys.executable, '-I', '-S', '-c',
            'import socket,sys; s=socket.socket(1,1); s.connect(sys.argv[1]); s.send(b"leak")',
            w['unix']))
        """,
        profile="procs",
    ),
    Case(
        "N06.loopback",
        "reach unix sockets when a private network is granted",
        "py",
        """
        def reach(path, kind=socket.SOCK_STREAM):
            s = socket.socket(socket.AF_UNIX, kind)
            s.connect(path)
        attempt('pathname', reach, w['unix'])
        attempt('abstract', reach, '\\0' + w['abstract'])
        attempt('netlink-nft', socket.socket, 16, 3, 12)
        attempt('packet', socket.socket, 17, 3, 0)
        attempt('raw', socket.socket, 2, 3, 1)
        """,
        profile="netprocs",
        codes_on={"baseline": ("sandbox_unavailable",)},
        again=False,
    ),
    Case(
        "N07.py",
        "reach abstract unix sockets of the host",
        "py",
        """
        def reach(kind, name):
            s = socket.socket(socket.AF_UNIX, kind)
            s.connect('\\0' + name)
            s.send(b'leak')
        attempt('stream', reach, socket.SOCK_STREAM, w['abstract'])
        attempt('x11', reach, socket.SOCK_STREAM, '/tmp/.X11-unix/X0')
        attempt('dgram', reach, socket.SOCK_DGRAM, w['abstract'])
        """,
    ),
    Case(
        "N08.py",
        "make sockets of every family",
        "py",
        """
        for family in range(0, 47):
            for kind in (1, 2, 3, 5):
                attempt('%d-%d' % (family, kind), socket.socket, family, kind, 0)
        attempt('alg', socket.socket, 38, 5, 0)
        for family in (2, 10, 16, 17, 38, 40):
            attempt('pair-%d' % family, socket.socketpair, family, 1)
        """,
    ),
    Case(
        "N11.py",
        "set up io_uring and use it for a socket",
        "py",
        """
        buffer = ctypes.create_string_buffer(256)
        attempt('setup', lambda: raw('io_uring_setup', 8, buffer))
        attempt('enter', lambda: raw('io_uring_enter', 0, 0, 0, 0, 0, 0))
        attempt('register', lambda: raw('io_uring_register', 0, 0, 0, 0))
        attempt('aio', lambda: raw('io_setup', 1, buffer))
        """,
        check=lambda ran: (
            None if ran.report["setup"] == "ENOSYS" else f"io_uring_setup: {ran.report['setup']}"
        ),
    ),
    Case(
        "N12.py",
        "find a socket among inherited descriptors",
        "py",
        """
        codes = report['=codes'] = {}
        for fd in range(0, 1100):
            try:
                codes[str(fd)] = repr(socket.socket(fileno=fd).getsockname())
            except OSError as error:
                if error.errno != errno.EBADF:
                    codes[str(fd)] = name_of(error)
        """,
        check=lambda ran: (
            f"sockets {found}"
            if (found := {f: c for f, c in ran.report["=codes"].items() if c != "ENOTSOCK"})
            else None
        ),
    ),
    Case(
        "N12.js",
        "find a socket among inherited descriptors, from Node",
        "js",
        """
  for (let fd = 0; fd < 64; fd++) {
    let isSocket = false;
    try { isSocket = fs.fstatSync(fd).isSocket(); } catch { }
    if (isSocket) report['=socket-' + fd] = fs.readlinkSync('/proc/self/fd/' + fd);
  }
""",
        check=lambda ran: f"sockets {ran.report}" if ran.report else None,
    ),
)
