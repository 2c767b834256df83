"""Modes of files that a worker owns."""

from __future__ import annotations

from tests.launcher.box import Box


def test_set_id_bits_can_not_be_given_and_others_can(box: Box) -> None:
    """F20: a set-user-ID file outlives the sandbox; ordinary permissions are the tool's own."""
    found = box.value(
        "f=WORK+'/f'\nopen(f,'w').close()\nfd=os.open(f, os.O_RDWR)\n"
        "os.umask(0)\n"
        "print(json.dumps(["
        "attempt(os.chmod, f, 0o4755), attempt(os.fchmod, fd, 0o2755),"
        "attempt(os.chmod, WORK, 0o6755),"
        "attempt(os.open, WORK+'/g', os.O_CREAT|os.O_WRONLY, 0o4755),"
        "attempt(os.open, WORK, os.O_TMPFILE|os.O_WRONLY, 0o4755),"
        "attempt(os.mknod, WORK+'/h', 0o104755),"
        "attempt(os.chmod, f, 0o1750), attempt(os.open, WORK+'/i', os.O_CREAT|os.O_WRONLY, 0o750),"
        "oct(os.stat(f).st_mode), sorted(os.listdir(WORK))]))"
    )
    assert found == [*["EPERM"] * 6, "ok", "ok", "0o101750", ["f", "i"]]
