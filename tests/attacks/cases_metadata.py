"""Corpus §1, F20 to F28: metadata, existence, mounts, litter and endless files."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tests.attacks import oracle
from tests.attacks.lab import Lab
from tests.attacks.model import Case, Gap, Ran

__all__ = ["CASES"]


def _folder_modes(root: Path) -> dict[Path, int]:
    paths = (root, *root.glob("*"), *root.glob("*/*"))
    return {p: p.stat().st_mode for p in paths if p.is_dir() and not p.is_symlink()}


async def _lock_out(lab: Lab, case: Case, ran: Ran) -> None:
    """Call, see whether other calls still work, put everything back."""
    modes = _folder_modes(Path(lab.facts["private"]))
    try:
        result = await lab.call(case.tool, seconds=case.timeout, w=lab.facts)
        ran.results.append(result)
        ran.code = "ok" if not result.is_error else str(result.code)
        ran.report, ran.text = ran.reports[-1] or {}, result.text
        # One whose worker has its files read already, and one that has to be started.
        ran.facts["benign"] = await oracle.benign(lab, "newcomer")
    finally:
        for path, mode in modes.items():  # parents first
            with contextlib.suppress(FileNotFoundError):
                os.chmod(path, mode & 0o7777)


_SET_ID = """
        os.umask(0)
        for place in (w['work'], scratch):
            at = '' if place == scratch else 'work-'
            own = place + '/s'
            write(own)
            fd = os.open(own, os.O_RDWR)
            folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            for name, bits in (('u', 0o4755), ('g', 0o2755), ('ug', 0o6755)):
                attempt(at + 'chmod-' + name, os.chmod, own, bits)
                attempt(at + 'fchmod-' + name, os.fchmod, fd, bits)
                attempt(at + 'fchmodat-' + name, os.chmod, 's', bits, dir_fd=folder)
                attempt(at + 'fchmodat2-' + name, lambda: raw('fchmodat2', folder, b's', bits, 0))
                attempt(at + 'open-' + name, os.open, own + name, os.O_CREAT | os.O_WRONLY, bits)
                attempt(at + 'tmp-' + name, os.open, place, os.O_TMPFILE | os.O_WRONLY, bits)
                attempt(at + 'creat-' + name, lambda: checked(L.creat((own + 'c' + name).encode(),
                    bits)))
                attempt(at + 'mknod-' + name, os.mknod, own + 'n' + name, stat.S_IFREG | bits)
                attempt(at + 'fifo-' + name, os.mkfifo, own + 'f' + name, bits)
                attempt(at + 'folder-' + name, os.chmod, place, bits)
            attempt('+' + at + 'plain', os.chmod, own, 0o755)
            attempt('+' + at + 'sticky', os.chmod, own, 0o1755)
        for name, bits in (('u', 0o4755), ('g', 0o2755)):
            attempt('out-' + name, os.chmod, w['bait'], bits)
        report['=modes'] = sorted({
            stat.S_IMODE(os.lstat(place + '/' + name).st_mode)
            for place in (w['work'], scratch) for name in os.listdir(place)})
"""


def _no_set_id(ran: Ran) -> str | None:
    wrong = [oct(mode) for mode in ran.report["=modes"] if mode & 0o6000]
    return f"files have the modes {wrong}" if wrong else None


CASES: tuple[Case, ...] = (
    Case(
        "F20.js",
        "change metadata of a file outside",
        "js",
        """
  await attempt('chmod', () => fs.chmodSync(w.bait, 0o600));
  await attempt('utimes', () => fs.utimesSync(w.bait, 1, 1));
  await attempt('lutimes', () => fs.lutimesSync(w.bait, 1, 1));
  await attempt('chown', () => fs.chownSync(w.victim, 0, 0));
  await attempt('lchown', () => fs.lchownSync(w.victim, 0, 0));
""",
        gaps=(Gap("metadata-write", ("baseline",), ("chmod", "utimes", "lutimes")),),
    ),
    Case(
        "F20.py",
        "change metadata, extended attributes and flags of a file outside",
        "py",
        """
        attempt('chmod', os.chmod, w['bait'], 0o600)
        attempt('utime', os.utime, w['bait'], (1, 1))
        attempt('xattr', os.setxattr, w['victim'], 'user.x', b'x')
        attempt('rmxattr', os.removexattr, w['victim'], 'user.kept')
        attempt('chown', os.chown, w['victim'], os.getuid(), os.getgid())
        attempt('flags', lambda: fcntl.ioctl(os.open(w['victim'], 0), 0x40086602, b'\\0' * 8))
        attempt('+own', os.chmod, w['work'], 0o755)
        """,
        gaps=(Gap("metadata-write", ("baseline",), ("chmod", "utime")),),
    ),
    *(
        Case(
            f"F20.setid{suffix}",
            "make files that run as their owner or group" + more,
            "py",
            _SET_ID,
            check=_no_set_id,
            profile=profile,
        )
        for suffix, more, profile in (("", "", "plain"), ("procs", ", with processes", "procs"))
    ),
    Case(
        "F20.lockout",
        "take the permissions from the runtime's own folders",
        "py",
        """
        for place in (scratch, os.path.dirname(__file__), os.path.dirname(
                os.path.dirname(__file__)), w['private'], os.path.dirname(scratch)):
            try:
                os.chmod(place, 0)
            except OSError as error:
                report['?' + place] = name_of(error)
        """,
        drive=_lock_out,
        check=lambda ran: "; ".join(ran.facts["benign"]) or None,
    ),
    Case(
        "F21.js",
        "ask whether hidden paths exist and how large they are",
        "js",
        """
  await attempt('stat', () => fs.statSync(w.secret).size);
  await attempt('lstat', () => fs.lstatSync(w.secret).size);
  await attempt('access', () => fs.accessSync(w.secret));
  await attempt('stat-folder', () => fs.statSync(w.hidden).nlink);
  await attempt('realpath', () => fs.realpathSync(w.secret));
  await attempt('statfs', () => fs.statfsSync(w.hidden).type);
  await attempt('watch', () => fs.watch(w.hidden).close());
  await attempt('+own', () => fs.statSync(w.work).size);
""",
        gaps=(
            Gap(
                "stat-oracle",
                ("baseline",),
                ("stat", "lstat", "access", "stat-folder", "realpath", "statfs"),
            ),
            Gap("watch-oracle", ("baseline",), ("watch",)),
        ),
    ),
    Case(
        "F21.py",
        "ask by O_PATH, readlink, inotify and name_to_handle_at",
        "py",
        """
        attempt('stat', lambda: os.stat(w['secret']).st_size)
        attempt('opath', os.open, w['secret'], os.O_PATH)
        attempt('listxattr', os.listxattr, w['secret'])
        fd = checked(L.inotify_init1(0))
        attempt('inotify', lambda: checked(L.inotify_add_watch(fd, w['hidden'].encode(), 0xfff)))
        attempt('inotify-file', lambda: checked(
            L.inotify_add_watch(fd, w['secret'].encode(), 0xfff)))
        """,
        gaps=(
            Gap("stat-oracle", ("baseline",), ("stat", "opath", "listxattr")),
            Gap("watch-oracle", ("baseline",), ("inotify", "inotify-file")),
        ),
    ),
    Case(
        "F22.js",
        "leave the working directory and go on relative to it",
        "js",
        """
  await attempt('chdir', () => process.chdir(w.hidden));
  if (report.chdir === 'ok') {
    await attempt('list', () => fs.readdirSync('.').join());
    await attempt('read', () => fs.readFileSync('secret.txt', 'utf8'));
    await attempt('write', () => fs.writeFileSync('victim.txt', 'x'));
  }
  process.chdir(w.work);
""",
        gaps=(Gap("stat-oracle", ("baseline",), ("chdir",)),),
    ),
    Case(
        "F22.py",
        "change to / and list it, and chroot",
        "py",
        """
        os.chdir('/')
        attempt('root', os.listdir, '.')
        attempt('hidden', lambda: os.listdir('.' + w['hidden']))
        attempt('read', read, '.' + w['secret'])
        attempt('fchdir', lambda: os.fchdir(os.open(w['hidden'], os.O_RDONLY)))
        attempt('chroot', os.chroot, w['work'])
        """,
    ),
    Case(
        "F25.py",
        "make namespaces and mounts",
        "py",
        """
        for name, flags in (('user-mount', 0x10020000), ('user', 0x10000000), ('mount', 0x20000),
                            ('net', 0x40000000), ('pid', 0x20000000), ('ipc', 0x8000000),
                            ('uts', 0x4000000), ('cgroup', 0x2000000), ('time', 0x80)):
            attempt('unshare-' + name, lambda: checked(L.unshare(flags)))
        attempt('mount', lambda: checked(L.mount(b'/', scratch.encode(), None, 4096, None)))
        attempt('tmpfs', lambda: checked(L.mount(b't', scratch.encode(), b'tmpfs', 0, None)))
        attempt('remount', lambda: checked(L.mount(None, b'/', None, 32 | 4096, None)))
        attempt('umount', lambda: checked(L.umount2(b'/proc', 2)))
        attempt('setns', lambda: raw('setns', os.open('/proc/self/ns/mnt', 0), 0))
        attempt('fsopen', lambda: raw('fsopen', b'tmpfs', 0))
        attempt('open_tree', lambda: raw('open_tree', -100, b'/', 1))
        attempt('move_mount', lambda: raw('move_mount', -100, b'/', -100, b'/', 0))
        attributes = struct.pack('QQQQ', 0, 1, 0, 0)  # clear read-only
        attempt('mount_setattr', lambda: raw('mount_setattr', -100, b'/', 0, attributes, 32))
        attempt('pivot_root', lambda: raw('pivot_root', b'.', b'.'))
        attempt('clone-user', lambda: raw('clone', 0x10000000 | 17, 0, 0, 0, 0))
        asked = struct.pack('QQQQQQQQ', 0x10000000, 0, 0, 0, 17, 0, 0, 0)
        attempt('clone3', lambda: raw('clone3', asked, len(asked)))
        """,
    ),
    Case(
        "F26.js",
        "leave files in /tmp, /var/tmp, /dev/shm, /run and home",
        "js",
        """
  // What can be written is private: the oracle looks for the mark in all these places.
  for (const place of ['/tmp', '/var/tmp', '/dev/shm', '/run', '/var/run', w.home, '/', '/mnt']) {
    const file = place + '/' + w.mark + process.pid;
    try { fs.writeFileSync(file, 'x'); report['?' + place] = 'private'; }
    catch (error) { report[place] = error.code; }
  }
  await attempt('+home', () => fs.writeFileSync(process.env.HOME + '/x', 'x'));
""",
    ),
    Case(
        "F26.next",
        "find in /tmp what an earlier call left there",
        "py",
        """
        for place in ('/tmp', '/var/tmp', '/dev/shm'):
            mine = place + '/' + w['mark']
            if args.get('leave'):
                try:
                    write(mine, b'left')
                except OSError:
                    pass
            else:
                attempt(place, read, mine)
        """,
        calls=({"leave": True}, {}),
    ),
    Case(
        "F28.js",
        "read an endless granted file",
        "js",
        "fs.readFileSync('/dev/zero');",
        codes=("memory_limit",),
        timeout=20.0,
    ),
    Case(
        "F28.py",
        "read endless granted files into memory",
        "py",
        "open('/dev/zero', 'rb').read()",
        codes=("memory_limit",),
        timeout=20.0,
    ),
)
