"""Corpus §1: reading, writing, reaching and littering the file system."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from typing import Any

from raw_exec.cli.options import Settings
from raw_exec.cli.output import Output
from raw_exec.text import escape_text
from tests.attacks.cases_metadata import CASES as METADATA
from tests.attacks.lab import Lab
from tests.attacks.model import Case, Gap, Ran

__all__ = ["CASES"]


def _names_only_allowed(ran: Ran) -> str | None:
    allowed = {
        "PATH", "LANG", "HOME", "TMPDIR", "TMP", "TEMP", "OPENSSL_CONF", "NODE_NO_WARNINGS",
        "PYTHONDONTWRITEBYTECODE", "LC_CTYPE",
    }  # fmt: skip
    extra = set(ran.report["=names"]) - allowed
    return f"environment has {sorted(extra)}" if extra else None


def _quota(ran: Ran) -> str | None:
    written = ran.report.get("=bytes")
    if written is None:
        return None  # killed meanwhile
    limit = 8 << 20
    return f"{written} bytes fit into a quota of {limit}" if written > limit else None


def _unescaped(ran: Ran) -> str | None:
    """Logs carry no control, no mark of direction and no escape."""
    for name, text in ran.last.logs.items():
        if escape_text(text) != text:
            return f"raw controls in {name}: {text[:200]!r}"
    return None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (*_strings(key), *_strings(item))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)


def _as_data(ran: Ran) -> str | None:
    """Text and detail are data, and whole; a terminal gets them without a control."""
    name = "\x1b]52;c;eA==\x07\u202e\n\r"
    if name not in ran.text:
        return f"the name is not in {ran.text!r}"
    terminal = io.StringIO()
    with contextlib.redirect_stderr(terminal):
        Output(Settings()).error(ran.text, more=list(_strings(ran.last.detail)))
    shown = terminal.getvalue()
    if "52;c;eA==" not in shown or escape_text(shown) != shown:
        return f"raw controls on the terminal: {shown!r}"
    return _unescaped(ran)


def _only_own_pipes(ran: Ran) -> str | None:
    """What a descriptor is opened anew as is the same pipe, which nobody else reads or fills."""
    for fd, (own, again) in ran.report["=reopened"].items():
        if again != own or own[0] != "fifo":
            return f"descriptor {fd} is {own}, and opened anew {again}"
    return None


def _descriptors(ran: Ran) -> str | None:
    if ran.report["=fds"] != [0, 1, 2, 3, 4, 5]:
        return f"descriptors {ran.report['=fds']}"
    wrong = {fd: code for fd, code in ran.report["=other-way"].items() if code != "EBADF"}
    wrong |= {fd: code for fd, code in ran.report["=as-folder"].items() if code != "ENOTDIR"}
    if wrong or ran.report["=stdin"] != "":
        return f"of use are {wrong}, and stdin holds {ran.report['=stdin']!r}"
    return None


def _names_limit(ran: Ran) -> str | None:
    """A worker that was ended for a limit is told apart from one that crashed."""
    if ran.code != "worker_crashed" or "limit" in ran.last.detail:
        return None
    return f"ended for its scratch quota, and the outcome does not say so: {ran.text}"


async def _with_file(lab: Lab, case: Case, ran: Ran) -> None:
    (lab.work / "given").write_text("intact")
    result = await lab.call(case.tool, seconds=case.timeout, w=lab.facts)
    ran.results.append(result)
    ran.code = "ok" if not result.is_error else str(result.code)
    ran.report, ran.text = ran.reports[-1] or {}, result.text
    ran.facts["given"] = (lab.work / "given").read_text()


async def _with_fifo(lab: Lab, case: Case, ran: Ran) -> None:
    os.mkfifo(lab.work / "fifo")
    result = await lab.call(case.tool, seconds=case.timeout, w=lab.facts)
    ran.results.append(result)
    ran.code, ran.text = str(result.code), result.text


CASES: tuple[Case, ...] = (
    Case(
        "F01.js",
        "read a secret by absolute path, in each way Node has",
        "js",
        """
  await attempt('sync', () => fs.readFileSync(w.secret, 'utf8'));
  await attempt('promise', () => fs.promises.readFile(w.secret, 'utf8'));
  await attempt('open', () => fs.openSync(w.secret, 'r'));
  await attempt('copy', () => fs.copyFileSync(w.secret, scratch + '/c'));
  await attempt('stream', () => new Promise((ok, no) =>
    fs.createReadStream(w.secret).on('data', (d) => ok(d)).on('error', no)));
  await attempt('list', () => fs.readdirSync(w.hidden).join());
  await attempt('opendir', () => fs.opendirSync(w.hidden).readSync().name);
  await attempt('import', () => import(w.secret).catch((error) => {
    throw error.code === 'ERR_MODULE_NOT_FOUND' ? { code: 'ENOENT' } : error; }));
  await attempt('shadow', () => fs.readFileSync('/etc/shadow', 'utf8'));
  await attempt('ssh', () => fs.readdirSync(w.home + '/.ssh').join());
  await attempt('home', () => fs.readdirSync(w.home).join());
  await attempt('private', () => fs.readdirSync(w.private).join());
  await attempt('+work', () => fs.writeFileSync(w.work + '/mine', '1'));
  await attempt('+scratch', () => fs.writeFileSync(scratch + '/mine', '1'));
""",
    ),
    Case(
        "F01.py",
        "read a secret by absolute path, in each way Python has",
        "py",
        """
        attempt('open', lambda: read(w['secret']))
        attempt('os', os.open, w['secret'], os.O_RDONLY)
        attempt('path', os.open, w['secret'], os.O_RDWR)
        attempt('mmap', lambda: __import__('mmap').mmap(os.open(w['secret'], 0), 0, prot=1)[:9])
        attempt('list', os.listdir, w['hidden'])
        attempt('scandir', lambda: next(os.scandir(w['hidden'])).name)
        attempt('sendfile', lambda: os.sendfile(1, os.open(w['secret'], 0), 0, 99))
        attempt('shadow', read, '/etc/shadow')
        attempt('gshadow', read, '/etc/gshadow')
        attempt('private', os.listdir, w['private'])
        attempt('base', os.listdir, w['base'])
        attempt('handle', raw, 'open_by_handle_at', -100, 0, 0)
        attempt('+work', write, w['work'] + '/mine')
        attempt('+scratch', write, scratch + '/mine')
        attempt('+read', read, w['work'] + '/mine')
        """,
    ),
    Case(
        "F01.readonly",
        "write where only reading is granted",
        "py",
        """
        attempt('create', write, w['work'] + '/x')
        attempt('mkdir', os.mkdir, w['work'] + '/d')
        attempt('symlink', os.symlink, 'x', w['work'] + '/l')
        attempt('truncate', os.truncate, w['work'] + '/given', 0)
        attempt('append', write, w['work'] + '/given', b'x', 'ab')
        attempt('unlink', os.unlink, w['work'] + '/given')
        attempt('rename', os.rename, w['work'] + '/given', w['work'] + '/taken')
        attempt('link', os.link, w['work'] + '/given', w['work'] + '/l2')
        attempt('+read', read, w['work'] + '/given')
        attempt('fifo', os.mkfifo, w['work'] + '/f')
        attempt('+list', os.listdir, w['work'])
        attempt('+scratch', write, scratch + '/x')
        """,
        profile="readonly",
        drive=_with_file,
        check=lambda ran: None if ran.facts["given"] == "intact" else str(ran.facts["given"]),
    ),
    Case(
        "F02.js",
        "walk out with ../ from the package, the scratch and the granted folder",
        "js",
        """
  const up = '/../'.repeat(40);
  const from = path.dirname(new URL(import.meta.url).pathname);
  await attempt('package', () => fs.readFileSync(from + up + w.secret, 'utf8'));
  await attempt('scratch', () => fs.readFileSync(scratch + up + w.secret, 'utf8'));
  await attempt('work', () => fs.readFileSync(w.work + up + w.secret, 'utf8'));
  await attempt('sibling', () => fs.readFileSync(w.work + '/../hidden/secret.txt', 'utf8'));
  await attempt('proc-root', () => fs.readFileSync('/proc/self/root' + w.secret, 'utf8'));
  await attempt('proc-cwd', () => fs.readFileSync('/proc/self/cwd' + up + w.secret, 'utf8'));
  await attempt('doubled', () => fs.readFileSync('//' + w.secret, 'utf8'));
  await attempt('dotted', () => fs.readFileSync(w.secret.replace('/', '/./'), 'utf8'));
""",
    ),
    Case(
        "F02.py",
        "walk out with dir_fd, with openat2-like relatives and /proc/self/fd",
        "py",
        """
        here = os.open(w['work'], os.O_RDONLY)
        attempt('dirfd', os.open, '../hidden/secret.txt', os.O_RDONLY, dir_fd=here)
        attempt('fd', read, '/proc/self/fd/%d/../hidden/secret.txt' % here)
        attempt('task', read, '/proc/self/task/%d/root%s' % (os.getpid(), w['secret']))
        attempt('thread', read, '/proc/thread-self/root' + w['secret'])
        attempt('bytes', read, os.fsencode(w['secret']))
        attempt('+own', os.listdir, here)
        os.close(here)
        """,
    ),
    Case(
        "F03.js",
        "make a symlink, read and write through it",
        "js",
        """
  for (const place of [scratch, w.work]) {
    const name = place === scratch ? 'scratch' : 'work', link = place + '/link';
    fs.symlinkSync(w.victim, link);
    await attempt(name + '-read', () => fs.readFileSync(link, 'utf8'));
    await attempt(name + '-append', () => fs.appendFileSync(link, 'x'));
    await attempt(name + '-write', () => fs.writeFileSync(link, 'x'));
    await attempt(name + '-truncate', () => fs.truncateSync(link, 0));
    fs.unlinkSync(link);
    fs.symlinkSync(w.hidden, link);
    await attempt(name + '-dir', () => fs.readdirSync(link).join());
    await attempt(name + '-below', () => fs.readFileSync(link + '/secret.txt', 'utf8'));
    await attempt(name + '-create', () => fs.writeFileSync(link + '/new', 'x'));
    fs.unlinkSync(link);
    fs.symlinkSync('../'.repeat(40) + w.secret, link);
    await attempt(name + '-relative', () => fs.readFileSync(link, 'utf8'));
  }
""",
    ),
    Case(
        "F03.py",
        "swap a granted file for a symlink while it is opened",
        "py",
        """
        link, own = w['work'] + '/swap', w['work'] + '/own'
        write(own, b'own')
        stop = threading.Event()
        def swap():
            while not stop.is_set():
                for target in (own, w['secret']):
                    os.symlink(target, link + '.new')
                    os.rename(link + '.new', link)
        thread = threading.Thread(target=swap)
        thread.start()
        seen = set()
        for _ in range(300):
            try:
                seen.add(read(link))
            except OSError:
                pass
        stop.set()
        thread.join()
        attempt('other', lambda: (seen - {b'own', b''}).pop() if seen - {b'own', b''} else deny())
        report['=seen'] = sorted(text.decode() for text in seen)
        """,
    ),
    Case(
        "F05.js",
        "hard link an outside file into a granted folder, then write",
        "js",
        """
  for (const [name, place] of [['scratch', scratch], ['work', w.work]]) {
    await attempt(name + '-link', () => fs.linkSync(w.victim, place + '/hard'));
    await attempt(name + '-secret', () => fs.linkSync(w.secret, place + '/hard2'));
    await attempt(name + '-write', () => { fs.openSync(place + '/hard', 'r+'); });
  }
  fs.writeFileSync(w.work + '/a', '1');
  await attempt('+inside', () => fs.linkSync(w.work + '/a', w.work + '/b'));
  await attempt('out', () => fs.linkSync(w.work + '/a', w.hidden + '/in'));
""",
    ),
    Case(
        "F05.py",
        "hard link through /proc/self/fd and linkat flags",
        "py",
        """
        attempt('proc', os.link, w['victim'], scratch + '/h', follow_symlinks=False)
        attempt('path', lambda: os.open(w['victim'], os.O_PATH) and os.link(
            '/proc/self/fd/%d' % os.open(w['victim'], os.O_PATH), scratch + '/h2',
            follow_symlinks=True))
        attempt('read', lambda: read('/proc/self/fd/%d' % os.open(w['secret'], os.O_PATH)))
        attempt('reopen', lambda: os.open(
            '/proc/self/fd/%d' % os.open(w['secret'], os.O_PATH), os.O_RDWR))
        """,
    ),
    Case(
        "F06.js",
        "rename out of, into, and over files outside",
        "js",
        """
  const own = w.work + '/own';
  fs.writeFileSync(own, 'x'); fs.writeFileSync(scratch + '/own', 'x');
  await attempt('over', () => fs.renameSync(own, w.victim));
  await attempt('scratch-over', () => fs.renameSync(scratch + '/own', w.victim));
  await attempt('out', () => fs.renameSync(own, w.hidden + '/moved'));
  await attempt('in', () => fs.renameSync(w.victim, w.work + '/stolen'));
  await attempt('dir', () => fs.renameSync(w.hidden, w.work + '/stolen'));
  await attempt('unlink', () => fs.unlinkSync(w.victim));
  await attempt('rm', () => fs.rmSync(w.hidden, { recursive: true }));
  await attempt('rmdir', () => fs.rmdirSync(w.hidden));
  await attempt('truncate', () => fs.truncateSync(w.victim, 0));
  await attempt('write', () => fs.writeFileSync(w.victim, 'x'));
  await attempt('append', () => fs.appendFileSync(w.victim, 'x'));
  await attempt('create', () => fs.writeFileSync(w.hidden + '/new', 'x'));
  await attempt('mkdir', () => fs.mkdirSync(w.hidden + '/new'));
  await attempt('cp', () => fs.cpSync(own, w.victim, { force: true }));
  await attempt('+inside', () => fs.renameSync(own, w.work + '/renamed'));
""",
    ),
    Case(
        "F06.py",
        "exchange two files, and write with O_TMPFILE and O_TRUNC",
        "py",
        """
        write(w['work'] + '/own')
        fn = getattr(L, 'renameat2', None)
        if fn is not None:
            attempt('exchange', lambda: checked(fn(
                -100, (w['work'] + '/own').encode(), -100, w['victim'].encode(), 2)))
        attempt('trunc', os.open, w['victim'], os.O_WRONLY | os.O_TRUNC)
        attempt('rdonly-trunc', os.open, w['victim'], os.O_RDONLY | os.O_TRUNC)
        attempt('tmpfile', os.open, w['hidden'], os.O_TMPFILE | os.O_RDWR)
        attempt('replace', os.replace, w['work'] + '/own', w['victim'])
        attempt('truncate', os.truncate, w['victim'], 0)
        attempt('mknod', os.mknod, w['hidden'] + '/n', 0o644)
        """,
    ),
    Case(
        "F08.py",
        "look into the supervisor, the launcher, siblings and a decoy through /proc",
        "py",
        """
        pids = [w['supervisor'], w['launcher'], w['decoy'], os.getppid(), 1, *w['siblings']]
        for index, pid in enumerate(pids):
            if pid == os.getpid():
                continue
            for part in ('environ', 'maps', 'mem', 'auxv', 'stack', 'syscall', 'io', 'pagemap',
                         'smaps', 'mountinfo', 'task/%d/environ' % pid, 'root/etc/passwd',
                         'cwd/etc/passwd', 'exe', 'fd/0', 'fd/3'):
                attempt('%d-%s' % (index, part), read, '/proc/%d/%s' % (pid, part))
            attempt('%d-fds' % index, os.listdir, '/proc/%d/fd' % pid)
            attempt('%d-map_files' % index, os.listdir, '/proc/%d/map_files' % pid)
            for part in ('cmdline', 'stat', 'status'):
                attempt('?%d-%s' % (index, part), read, '/proc/%d/%s' % (pid, part))
            attempt('%d-cwd' % index, os.readlink, '/proc/%d/cwd' % pid)
            attempt('%d-root' % index, os.readlink, '/proc/%d/root' % pid)
        attempt('list', os.listdir, '/proc')
        attempt('+self', read, '/proc/self/stat')
        """,
    ),
    Case(
        "F08.names",
        "read the command line of other processes",
        "py",
        """
        attempt('cmdline', read, '/proc/%d/cmdline' % w['supervisor'])
        attempt('decoy', read, '/proc/%d/cmdline' % w['decoy'])
        attempt('stat', read, '/proc/%d/stat' % w['supervisor'])
        """,
    ),
    Case(
        "F08.procs",
        "read the command line of other processes with processes granted",
        "py",
        """
        for index, pid in enumerate((w['supervisor'], w['launcher'], w['decoy'], *w['siblings'])):
            for part in ('cmdline', 'comm', 'stat', 'status', 'environ', 'maps'):
                attempt('%d-%s' % (index, part), read, '/proc/%d/%s' % (pid, part))
        others = {str(pid) for pid in (w['supervisor'], w['launcher'], w['decoy'])}
        attempt('list', lambda: others & {*os.listdir('/proc')} or deny())
        attempt('ps', lambda: program('/bin/sh', '-c', 'cat /proc/%d/cmdline' % w['decoy']))
        """,
        profile="procs",
    ),
    Case(
        "F08.granted",
        "read about other processes where reading /proc is granted",
        "py",
        """
        for name in ('supervisor', 'launcher', 'decoy'):
            for part in ('environ', 'maps', 'mem', 'fd/0', 'auxv'):
                attempt('%s-%s' % (name, part), os.open, '/proc/%d/%s' % (w[name], part), 0)
            attempt(name + '-cmdline', lambda: len(read('/proc/%d/cmdline' % w[name])))
        attempt('+self', read, '/proc/self/stat')
        """,
        profile="proc",
        gaps=(
            Gap(
                "process-list",
                ("baseline",),
                ("supervisor-cmdline", "launcher-cmdline", "decoy-cmdline"),
            ),
        ),
    ),
    Case(
        "F09.js",
        "read the own environment",
        "js",
        """
  report['=names'] = Object.keys(process.env);
  await attempt('secret', () => { const v = process.env.RAW_ATTACK_SECRET; if (!v) deny();
    return v; });
""",
        check=_names_only_allowed,
    ),
    Case(
        "F09.py",
        "read the own environment, also as the kernel shows it and off the stack",
        "py",
        """
        try:
            kernel = read('/proc/self/environ', 1 << 20).split(b'\\0')
        except PermissionError:
            kernel = []  # a process that may not be traced hides it from itself, too
        names = {entry.partition(b'=')[0].decode() for entry in kernel if entry}
        report['=names'] = sorted(names | set(os.environ))
        memory = b''
        try:
            with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb') as mem:
                for line in maps:
                    span = line.split()[0].split('-')
                    if '[stack]' in line or '[heap]' in line:
                        mem.seek(int(span[0], 16))
                        memory += mem.read(int(span[1], 16) - int(span[0], 16))
        except OSError:
            pass
        for name, word in (('memory', b'RAW_ATTACK_'), ('token', b'SIBLING_')):
            place = memory.find(word + b'SECRET')
            attempt(name, lambda: memory[place:][:60] if place >= 0 else deny())
        """,
        check=_names_only_allowed,
    ),
    Case(
        "F10.py",
        "enumerate and use inherited descriptors",
        "py",
        """
        found = {}
        for fd in range(0, 1100):
            try:
                found[fd] = stat.S_IFMT(os.fstat(fd).st_mode)
            except OSError:
                pass
        report['=fds'] = sorted(found)
        for fd in found:
            if fd > 5:
                attempt('use-%d' % fd, os.read, fd, 1)
        report['=stdin'] = os.read(0, 10).decode()
        def code(action, *rest, **named):
            try:
                return 'ok:%r' % action(*rest, **named)
            except OSError as error:
                return name_of(error)
        report['=other-way'] = {
            **{str(fd): code(os.read, fd, 1) for fd in (1, 2, 4)},
            **{str(fd): code(os.write, fd, b'x') for fd in (3, 5)}}
        report['=as-folder'] = {
            str(fd): code(os.open, 'etc', os.O_RDONLY, dir_fd=fd) for fd in found}
        """,
        check=_descriptors,
    ),
    Case(
        "F10.js",
        "reopen own descriptors by name to get the other direction",
        "js",
        """
  const what = (fd) => { const s = fs.fstatSync(fd);
    return [s.isFIFO() ? 'fifo' : s.isSocket() ? 'socket' : 'other', s.ino]; };
  const pipes = report['=reopened'] = {};
  for (const fd of [1, 2, 3, 4, 5]) {
    const way = fd === 3 || fd === 5 ? fs.constants.O_WRONLY : fs.constants.O_RDONLY;
    const own = what(fd);
    try {
      const again = fs.openSync('/proc/self/fd/' + fd, way | fs.constants.O_NONBLOCK);
      pipes[fd] = [own, what(again)];
      fs.closeSync(again);
    } catch (error) { report['?closed-' + fd] = code_of(error); }
  }
""",
        check=_only_own_pipes,
    ),
    Case(
        "F11.js",
        "rewrite the own entry file, the manifest and the package",
        "js",
        """
  const own = new URL(import.meta.url).pathname;
  await attempt('entry', () => fs.writeFileSync(own, 'evil'));
  await attempt('append', () => fs.appendFileSync(own, '// evil'));
  await attempt('manifest', () => fs.writeFileSync(path.dirname(own) + '/tool.json', '{}'));
  await attempt('new', () => fs.writeFileSync(path.dirname(own) + '/new.mjs', ''));
  await attempt('unlink', () => fs.unlinkSync(own));
  await attempt('rename', () => fs.renameSync(own, own + '.old'));
  await attempt('chmod', () => fs.chmodSync(path.dirname(own), 0o777));
  await attempt('modules', () => fs.mkdirSync(path.dirname(own) + '/node_modules'));
  await attempt('source', () => fs.writeFileSync(w.base + '/config/tools/bystander/index.mjs', ''));
  await attempt('config', () => fs.writeFileSync(w.base + '/config/baseline-pooled.json', '{}'));
  await attempt('+read', () => fs.readFileSync(own, 'utf8').length);
""",
        gaps=(Gap("metadata-write", ("baseline",), ("chmod",)),),
    ),
    Case(
        "F11.py",
        "rewrite the own entry file in Python and its byte code",
        "py",
        """
        attempt('entry', write, __file__, b'evil')
        attempt('append', write, __file__, b'evil', 'ab')
        attempt('cache', os.mkdir, os.path.join(os.path.dirname(__file__), '__pycache__'))
        attempt('new', write, os.path.join(os.path.dirname(__file__), 'new.py'))
        attempt('unlink', os.unlink, __file__)
        """,
    ),
    Case(
        "F12.py",
        "drop sitecustomize, .pth and packages beside the runtime",
        "py",
        """
        for index, place in enumerate([*sys.path, sys.prefix, '/usr/lib/python3/dist-packages']):
            if place and os.path.isdir(place):
                attempt('site-%d' % index, write, os.path.join(place, w['mark'] + '.pth'))
                attempt('custom-%d' % index, write, os.path.join(place, 'sitecustomize.py'), b'')
        attempt('etc', write, '/etc/' + w['mark'])
        attempt('profile', write, w['home'] + '/.' + w['mark'])
        attempt('preload', write, '/etc/ld.so.preload')
        """,
    ),
    Case(
        "F12.js",
        "drop node_modules beside the runtime and above the package",
        "js",
        """
  const bin = path.dirname(process.execPath);
  let here = path.dirname(new URL(import.meta.url).pathname);
  for (let i = 0; here !== '/' && i < 12; i++, here = path.dirname(here)) {
    if (here === w.base) break;
    await attempt('up-' + i, () => fs.mkdirSync(here + '/node_modules'));
  }
  await attempt('bin', () => fs.writeFileSync(bin + '/' + w.mark, ''));
  await attempt('beside', () => fs.linkSync(process.execPath, bin + '/' + w.mark));
  await attempt('lib', () => fs.writeFileSync(bin + '/../lib/' + w.mark, ''));
  await attempt('home', () => fs.writeFileSync(w.home + '/.' + w.mark, ''));
""",
    ),
    Case(
        "F13.js",
        "fill the private directory, one file",
        "js",
        """
  const data = Buffer.alloc(1 << 20, 1);
  let total = 0;
  try { for (; total < 1 << 28; total += data.length) fs.appendFileSync(scratch + '/fill', data); }
  catch (e) { report['=code'] = e.code; }
  report['=bytes'] = total;
""",
        check=_quota,
    ),
    Case(
        "F13.many",
        "fill the private directory, many files",
        "py",
        """
        total = 0
        try:
            for index in range(100000):
                write(scratch + '/f%d' % index, b'x' * 262144)
                total += 262144
                if total > 1 << 28:
                    break
        except OSError as error:
            report['=code'] = name_of(error)
        report['quota'] = 'DENIED' if total <= 8 << 20 else 'ok:%d bytes fit into 8 MB' % total
        """,
        codes=("ok", "output_limit", "worker_crashed"),
        check=_names_limit,
        gaps=(Gap("scratch-watch", ("baseline",), ("quota",), sometimes=True),),
    ),
    Case(
        "F13.sparse",
        "make a sparse file, a preallocated file and 100,000 names",
        "py",
        """
        def sparse():
            with open(scratch + '/sparse', 'wb') as file:
                file.truncate(1 << 40)
        attempt('sparse', sparse)
        attempt('prealloc', lambda: os.posix_fallocate(
            os.open(scratch + '/pre', os.O_RDWR | os.O_CREAT), 0, 1 << 30))
        for index in range(20000):
            try:
                os.mkdir(scratch + '/n%d' % index)
            except OSError:
                break
        """,
        codes=("ok", "output_limit", "worker_crashed", "timeout"),
        check=_names_limit,
    ),
    Case(
        "F15.py",
        "leave a chain of 5,000 folders to be removed",
        "py",
        """
        os.chdir(scratch)
        for _ in range(5000):
            os.mkdir('d')
            os.chdir('d')
        """,
        timeout=3.0,
        codes=("ok", "output_limit", "worker_crashed", "timeout"),
        check=_names_limit,
    ),
    Case(
        "F15.locked",
        "leave folders without permissions, and immutable ones",
        "py",
        """
        os.makedirs(scratch + '/a/b/c')
        write(scratch + '/a/b/c/f')
        os.symlink(w['hidden'], scratch + '/a/out')
        os.mkfifo(scratch + '/a/fifo')
        for part in ('/a/b/c', '/a/b', '/a'):
            os.chmod(scratch + part, 0)
        os.chmod(scratch, 0)
        """,
    ),
    Case(
        "F17.py",
        "use hostile file names and echo them",
        "py",
        """
        for index, name in enumerate([b'\\xff\\x1b[2J\\n', b'-rf', b'\\xe2\\x80\\xae', b'x' * 255,
                                      b'a\\tb\\rc', b'\\x7f', b'..;x', b' ']):
            attempt('+%d' % index, write, os.path.join(os.fsencode(scratch), name))
            os.write(1, name + b'\\n')
            os.write(2, name + b'\\n')
        """,
        check=_unescaped,
    ),
    Case(
        "F17.throw",
        "throw an error that names a hostile file",
        "js",
        "fs.readFileSync(scratch + '/\\x1b]52;c;eA==\\x07\\u202e\\n\\r');",
        codes=("handler_error",),
        check=_as_data,
    ),
    Case(
        "F18.js",
        "block every libuv thread on a FIFO",
        "js",
        """
  const wait = [];
  for (let i = 0; i < 8; i++) wait.push(fs.promises.readFile(w.work + '/fifo'));
  await Promise.all(wait);
""",
        codes=("timeout",),
        drive=_with_fifo,
    ),
    Case(
        "F18.py",
        "open a FIFO for reading in many threads",
        "py",
        """
        os.mkfifo(scratch + '/fifo')
        for _ in range(8):
            threading.Thread(target=open, args=(scratch + '/fifo',), daemon=True).start()
        open(scratch + '/fifo')
        """,
        codes=("timeout",),
    ),
    Case(
        "F19.py",
        "make and open device nodes and terminals",
        "py",
        """
        attempt('mknod-mem', os.mknod, scratch + '/mem', 0o666 | stat.S_IFCHR, os.makedev(1, 1))
        attempt('mknod-blk', os.mknod, scratch + '/blk', 0o666 | stat.S_IFBLK, os.makedev(8, 0))
        attempt('mknod-null', os.mknod, scratch + '/nul', 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        for name in ('tty', 'mem', 'kmem', 'kmsg', 'port', 'ptmx', 'pts/0', 'console', 'tty0',
                     'sda', 'vda', 'loop-control', 'fuse', 'kvm', 'net/tun', 'vsock', 'uinput',
                     'input/event0', 'dri/card0', 'userfaultfd', 'vhost-net', 'mapper/control'):
            attempt(name, os.open, '/dev/' + name, os.O_RDWR | os.O_NONBLOCK)
        attempt('openpty', os.openpty)
        attempt('kcore', read, '/proc/kcore')
        attempt('kallsyms', read, '/proc/kallsyms')
        attempt('sysrq', write, '/proc/sysrq-trigger', b'h')
        attempt('core-pattern', write, '/proc/sys/kernel/core_pattern', b'|/bin/true')
        attempt('+null', write, '/dev/null')
        attempt('+urandom', read, '/dev/urandom', 4)
        """,
    ),
    *METADATA,
)
