"""Files: what a worker can and cannot read, write, find and leave behind, in each tier."""

from __future__ import annotations

import os
import stat

import pytest

from tests.launcher.box import Box
from tests.launcher.client import SYSTEM


def test_worker_reads_and_writes_its_grant_but_cannot_read_a_secret(box: Box) -> None:
    """Design §4: only the plan's paths; the denial is an ordinary error (F01)."""
    assert box.value(
        "open('a','w').write('x')\n"
        "print(json.dumps([open('a').read(), attempt(open, SECRET)]))"
    ) == ["x", "ENOENT" if box.private else "EACCES"]  # fmt: skip
    assert (box.work / "a").read_text() == "x"


def test_links_out_of_the_grant_lead_nowhere(box: Box) -> None:
    """F03, F05, F06: symbolic link, hard link and rename all stop at the grant."""
    before = os.stat(box.secret)
    result = box.value(
        "os.symlink(SECRET, 'link')\n"
        "r = [attempt(open, 'link'), attempt(open, 'link', 'a')]\n"
        "open('own','w').close()\n"
        "r += [attempt(os.link, SECRET, 'hard'), attempt(os.rename, 'own', SECRET)]\n"
        "r += [attempt(os.rename, 'own', 'own2')]\n"
        "print(json.dumps(r))"
    )
    assert "ok" not in result[:4]
    assert result[4] == "ok"
    assert box.secret.read_text() == "T1-secret"
    assert os.stat(box.secret).st_mtime_ns == before.st_mtime_ns


def test_metadata_outside_stays_when_a_mount_namespace_guards_it(box: Box) -> None:
    """F20: closed by namespaces; a documented gap of the baseline for files one owns."""
    before = os.stat(box.secret)
    result = box.value(
        "print(json.dumps([attempt(os.chmod, SECRET, 0o777), attempt(os.utime, SECRET, (1, 1))]))"
    )
    assert result == ["ENOENT" if box.private else "ok"] * 2
    after = os.stat(box.secret)
    changed = (before.st_mode, before.st_mtime_ns) != (after.st_mode, after.st_mtime_ns)
    assert changed is (not box.private)


def test_owner_and_attributes_outside_stay_in_every_tier(box: Box) -> None:
    """F20, the part a filter can hold: chown and extended attributes."""
    result = box.value(
        "print(json.dumps([attempt(os.chown, SECRET, os.getuid(), os.getgid()),"
        " attempt(os.setxattr, SECRET, 'user.x', b'1')]))"
    )
    assert "ok" not in result


def test_existence_of_hidden_files_is_secret_in_a_mount_namespace(box: Box) -> None:
    """F21: the stat oracle; a documented gap of the baseline."""
    result = box.value("print(json.dumps(attempt(os.stat, SECRET)))")
    assert result == ("ENOENT" if box.private else "ok")


def test_listing_the_root_and_other_folders_is_denied(box: Box) -> None:
    """F22: chdir out, then relative access."""
    result = box.value(
        "r=[attempt(os.listdir, '/'), attempt(os.listdir, '/etc'), attempt(os.listdir, '/root')]\n"
        "os.chdir('/')\nr.append(attempt(os.listdir, '.'))\n"
        "r.append(attempt(os.listdir, WORK))\nprint(json.dumps(r))"
    )
    assert "ok" not in result[:4]
    assert result[4] == "ok"


def test_scratch_is_home_and_temporary_directory_and_is_gone_afterwards(box: Box) -> None:
    """F26: what is left in private directories does not outlive the worker."""
    ended = box.python(
        "import tempfile\n"
        "open(os.path.join(os.environ['HOME'], 'h'), 'w').write('x')\n"
        "f = tempfile.NamedTemporaryFile(delete=False); f.write(b'x'); f.close()\n"
        "print(json.dumps([os.environ['HOME'] == os.environ['TMPDIR'],"
        " f.name.startswith(os.environ['HOME'])]))"
    )
    assert ended.out == "[true, true]\n", ended
    assert os.listdir(box.client.scratch_root) == []


def test_shared_temporary_directories_are_denied_or_private(box: Box) -> None:
    """F26, K12: nothing lands in the host's /tmp, /var/tmp or /dev/shm."""
    result = box.value(
        "print(json.dumps([attempt(open, d + '/raw-left-behind', 'w')"
        " for d in ('/tmp', '/var/tmp', '/dev/shm')]))"
    )
    # No private one: its only content is the way to this test's grant.
    in_tmp = "EROFS" if box.private else "EACCES"
    assert result == [in_tmp, *["ok" if box.private else "EACCES"] * 2]
    for directory in ("/tmp", "/var/tmp", "/dev/shm"):
        assert not os.path.exists(directory + "/raw-left-behind")


def test_devices_cannot_be_made_and_only_harmless_ones_opened(box: Box) -> None:
    """F19: device nodes, terminals, memory."""
    result = box.value(
        "import stat\n"
        "r=[attempt(os.mknod, 'n', stat.S_IFCHR | 0o666, os.makedev(1, 3)),"
        " attempt(os.mknod, 'b', stat.S_IFBLK | 0o666, os.makedev(254, 0))]\n"
        "r+=[attempt(open, p) for p in ('/dev/tty', '/dev/mem', '/dev/kmsg', '/dev/vda')]\n"
        "r+=[attempt(open, '/dev/null', 'r+'), attempt(open, '/dev/urandom', 'rb')]\n"
        "print(json.dumps(r))"
    )
    assert "ok" not in result[:6]
    assert result[6:] == ["ok", "ok"]


@pytest.mark.slow
def test_deep_chain_odd_names_and_locked_folders_in_scratch_are_removed(box: Box) -> None:
    """F15, F17: removal neither recurses nor trusts names, modes or links."""
    ended = box.python(
        "os.chdir(os.environ['HOME'])\n"
        "os.symlink('/', 'root'); os.symlink(WORK, 'work')\n"
        "open(b'\\xff\\x1b[2J\\n','w').close(); open('-rf','w').close(); os.mkdir('x'*255)\n"
        "os.mkdir('locked'); open('locked/f','w').close(); os.chmod('locked', 0)\n"
        "os.mkfifo('fifo')\n"
        "os.mkdir('deep'); os.chdir('deep')\n"
        "for _ in range(1500): os.mkdir('d'); os.chdir('d')\n"
    )
    assert ended.exited["code"] in (0, None), ended
    assert os.listdir(box.client.scratch_root) == []
    assert box.secret.exists()
    assert box.work.exists()


def test_clean_empties_scratch_between_calls_and_nothing_else(box: Box) -> None:
    """S17: fresh scratch per call; the grants stay."""
    (box.work / "keep").write_text("k")
    read_end, write_end = os.pipe()
    answer_read, answer_write = os.pipe()
    child = box.spawn(
        "import os,sys\n"
        "h=os.environ['HOME']\n"
        "os.makedirs(h+'/a/b'); open(h+'/a/b/f','w').write('x'*5000); os.symlink('/', h+'/l')\n"
        "os.write(4,b'1'); os.read(3,1)\n"
        "os.write(4,str(os.listdir(h)).encode()); open(h+'/again','w').close()\n"
        "os.write(4,b';'); os.read(3,1)",
        fds={3: read_end, 4: answer_write},
    )
    try:
        assert os.read(answer_read, 1) == b"1"
        box.client.send({"op": "clean", "id": child["id"]})
        cleaned = box.client.wait("cleaned", child["id"])
        assert cleaned["entries"] >= 4
        os.write(write_end, b"g")
        text = b""
        while not text.endswith(b";"):
            text += os.read(answer_read, 100)
        assert text == b"[];"
        os.write(write_end, b"g")
        assert box.client.wait("exited", child["id"])["code"] == 0
        assert (box.work / "keep").read_text() == "k"
    finally:
        for fd in (read_end, write_end, answer_read, answer_write):
            os.close(fd)


def test_read_grant_is_read_only_and_program_files_cannot_be_changed(box: Box) -> None:
    """F11, F12: neither its own entry nor the runtime beside it can be rewritten."""
    shared = box.base / "shared"
    shared.mkdir()
    (shared / "entry").write_text("original")
    os.chown(shared, box.uid, box.uid)
    os.chown(shared / "entry", box.uid, box.uid)
    result = box.value(
        f"S={str(shared)!r}\n"
        "r=[open(S+'/entry').read(), attempt(open, S+'/entry', 'w'), attempt(open, S+'/n', 'w'),"
        " attempt(os.truncate, S+'/entry', 0), attempt(os.unlink, S+'/entry'),"
        " attempt(open, '/usr/lib/python3/x.pth', 'w')]\nprint(json.dumps(r))",
        read=[*SYSTEM, str(shared)],
    )
    assert result[0] == "original"
    assert "ok" not in result[1:]
    assert (shared / "entry").read_text() == "original"


def test_grant_below_the_shared_temporary_directory_is_visible_at_its_own_path(box: Box) -> None:
    """Paths inside equal paths outside, wherever the workspace lies."""
    assert str(box.work).startswith("/tmp/")
    assert box.value("print(json.dumps(os.getcwd()))") == str(box.work)


def test_link_among_granted_paths_works_and_missing_grant_grants_nothing(box: Box) -> None:
    """A grant may be named through a link; an absent one is no error."""
    real = box.base / "real"
    real.mkdir()
    (real / "f").write_text("1")
    link = box.base / "link"
    link.symlink_to(real)
    result = box.value(
        f"print(json.dumps([open({str(link / 'f')!r}).read(), attempt(os.listdir, '/absent')]))",
        read=[*SYSTEM, str(link), "/absent/folder"],
    )
    assert result[0] == "1"
    assert result[1] != "ok"


def test_write_grant_inside_a_read_grant_can_be_written(box: Box) -> None:
    """Grants add up: the narrower one is not lost under the wider."""
    inner = box.base / "outer" / "inner"
    inner.mkdir(parents=True)
    for path in (inner, inner.parent):
        os.chown(path, box.uid, box.uid)
    result = box.value(
        f"O={str(inner.parent)!r}\n"
        "print(json.dumps([attempt(open, O+'/no', 'w'), attempt(open, O+'/inner/yes', 'w')]))",
        read=[*SYSTEM, str(inner.parent)],
        write=[str(inner), str(box.work)],
    )
    assert result[0] != "ok"
    assert result[1] == "ok"
    assert stat.S_ISREG(os.stat(inner / "yes").st_mode)
