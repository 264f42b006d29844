"""test_judge.py - the judge of the fault runs (faults.py), itself judged: made-up histories, right ones and wrong ones of each kind

A cluster of three nodes with two ranks each, or three (rank r on node r % 3). A history is what the ranks have noted, what was done to them, and what
lay on the nodes at the end; the judge must find in it what is wrong, and nothing else.
"""
import errno
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import fault_plan
import faults

CUT, END = 20.0, 100.0


class History:
    def __init__(self, ranks=6):
        self.plan = fault_plan.Launch()
        self.plan.nodes, self.plan.ranks = 3, ranks
        self.ops = [[] for _ in range(ranks)]
        self.notes = [[] for _ in range(ranks)]
        self.events, self.scans, self.wrong = [], [[], [], []], None
        self.silent = set()  # of these there is no "finish"

    def op(self, rank, begin, kind, name, end, *outcome, uid=None, to=None, opened=None, broke=None, child=False):
        """`end` None: cut off."""
        self.ops[rank].append((begin, "begin", kind, name, to, uid, child))
        if opened is not None:
            self.ops[rank].append((opened, "opened"))
        if broke is not None:
            self.ops[rank].append((broke, "broke", errno.ENOSPC))
        if end is not None:
            self.ops[rank].append((end, "end", *outcome))
        return self

    def write(self, rank, begin, name, uid, kind="write", took=0.1):
        return self.op(rank, begin, kind, name, begin + took, "done", uid=uid, opened=begin + 0.01)

    def read(self, rank, begin, name, uid, took=0.1):
        return self.op(rank, begin, "read", name, begin + took, "read", uid, opened=begin + took / 2)

    def refused(self, rank, begin, name, error, took=0.1, kind="read"):
        return self.op(rank, begin, kind, name, begin + took, "refused", error)

    def torn(self, rank, begin, name, uid, took=0.1, beginning=True):
        return self.op(rank, begin, "read", name, begin + took, "torn", uid, "3 bytes of 9", beginning, opened=begin + took / 2)

    def fault(self, kind, target, begin, end):
        self.events.append({"kind": kind, "target": target, "begin": begin, "end": end})
        return self

    def kill(self, rank, at):
        self.silent.add(rank)
        return self.fault("kill", rank, at, at)

    def heir(self, dead, by, at):
        self.events.append({"kind": "heir", "target": dead, "by": by, "begin": at, "end": at})
        return self

    def note(self, rank, at, *words):
        self.ops[rank].append((at, *words))
        return self

    def lies(self, node, name, uid, wrong=None):
        self.scans[node].append([name, uid, wrong])
        return self

    def result(self):
        lines = []
        for rank, ops in enumerate(self.ops):
            if rank not in self.silent:
                ops = ops + [(END, "finish")]
            lines.append([[at, k, *words] for k, (at, *words) in enumerate(ops)])
        return faults.Judge(self.plan, "0", lines, {"events": self.events, "wrong": self.wrong}, self.scans).run()


class Judged(unittest.TestCase):
    def right(self, history, outcome=None):
        result = history.result()
        self.assertEqual(result["wrong"], [])
        if outcome:
            self.assertEqual(result["kinds"]["all"]["outcomes"].get(outcome), 1, result["kinds"]["all"]["outcomes"])

    def wrong(self, history, words):
        found = history.result()["wrong"]
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])


class Reads(Judged):
    def test_right(self):
        self.right(History().write(0, 10, "f", "0.1").read(1, 11, "f", "0.1").read(0, 12, "f", "0.1").lies(0, "f", "0.1").lies(1, "f", "0.1"))

    def test_stale(self):
        self.wrong(History().write(0, 10, "f", "0.1").write(0, 11, "f", "0.2").read(1, 12, "f", "0.1"), "stale: 0.1")

    def test_old_or_new_while_it_is_written(self):
        for uid in ("0.1", "0.2"):
            self.right(History().write(0, 10, "f", "0.1").write(0, 11, "f", "0.2", took=2).read(1, 12, "f", uid))

    def test_from_the_future(self):
        self.wrong(History().write(0, 10, "f", "0.1").read(1, 11, "f", "0.2").write(0, 12, "f", "0.2"), "stale: 0.2")

    def test_never_written(self):
        self.wrong(History().write(0, 10, "f", "0.1").read(1, 11, "f", "7.7"), "wrong: 7.7")

    def test_partial(self):
        self.wrong(History().write(0, 10, "f", "0.1").torn(1, 11, "f", "0.1"), "torn: 0.1")

    def test_partial_of_who_is_writing(self):
        """Whoever opens it on the node while it is written has to wait."""
        self.wrong(History().write(0, 10, "f", "0.1", took=2).torn(3, 11, "f", "0.1"), "torn")

    def test_rewritten_while_open(self):
        self.right(History().write(0, 10, "f", "0.1").torn(3, 11, "f", "0.1", took=2).op(
            0, 11.5, "write", "f", 12.5, "done", uid="0.2", opened=11.6), "overtaken")

    def test_rewritten_while_open_elsewhere(self):
        self.wrong(History().write(0, 10, "f", "0.1").torn(1, 11, "f", "0.1", took=2).op(
            0, 11.5, "write", "f", 12.5, "done", uid="0.2", opened=11.6), "torn")

    def test_partial_of_a_write_that_failed(self):
        h = History().fault("full", 0, 9, 12).op(0, 10, "write", "f", 12, "failed", errno.ENOSPC, "write", "gone", uid="0.1", broke=11)
        self.right(h.torn(1, 11.5, "f", "0.1"), "torn by its writer")

    def test_wrong_bytes_of_a_write_that_failed(self):
        h = History().fault("full", 0, 9, 12).op(0, 10, "write", "f", 12, "failed", errno.ENOSPC, "write", "gone", uid="0.1", broke=11)
        self.wrong(h.torn(1, 11.5, "f", "0.1", beginning=False), "torn")

    def test_partial_of_a_killed_writer(self):
        self.wrong(History().op(0, 10, "write", "f", None, uid="0.1", opened=10.1).kill(0, 11).torn(3, 12, "f", "0.1"), "torn")

    def test_two_writers(self):
        h = History().write(0, 10, "f", "0.1", took=2).write(3, 11, "f", "3.1").torn(1, 13, "f", "3.1", beginning=False)
        self.right(h.lies(1, "f", "3.1", "wrong bytes"), "torn by its writer")
        h = History().write(0, 10, "f", "0.1", took=2).write(1, 11, "f", "1.1").torn(2, 13, "f", "1.1", beginning=False)
        self.wrong(h, "torn")

    def test_killed_writer_seen_and_then_not(self):
        h = History().write(0, 9, "f", "0.1").op(0, 10, "replace", "f", None, uid="0.2").kill(0, 11).read(1, 12, "f", "0.2")
        self.wrong(h.read(1, 13, "f", "0.1"), "stale: 0.1")


class OutOfDate(Judged):
    def cut(self, node, **kw):
        return History().write(0, 10, "f", "0.1").fault("cut", node, CUT, CUT + 5).write(0, CUT + 1, "f", "0.2")

    def test_writer_cut(self):
        self.right(self.cut(0).read(1, CUT + 3, "f", "0.1"), "outdated")

    def test_reader_cut(self):
        self.wrong(self.cut(1).read(1, CUT + 3, "f", "0.1"), "stale")

    def test_reader_cut_with_its_own(self):
        """Rank 4 is on the reader's node."""
        h = History().write(4, 10, "f", "4.1").fault("cut", 1, CUT, CUT + 5).write(0, CUT + 1, "f", "0.2")
        self.right(h.read(1, CUT + 3, "f", "4.1"), "outdated")

    def test_made_on_both_sides(self):
        """What was made beyond the cut has the higher version, and is found when that has healed."""
        h = History().write(2, 10, "f", "2.1").fault("cut", 0, CUT, CUT + 5).write(0, CUT + 1, "f", "0.2")
        self.wrong(h.read(1, CUT + 5 + faults.GRACE + 1, "f", "2.1"), "stale")
        h = History().write(2, 10, "f", "2.1").fault("cut", 0, CUT, CUT + 5).write(0, CUT + 6, "f", "0.2")
        self.wrong(h.read(1, CUT + 5 + faults.GRACE + 1, "f", "2.1"), "stale")

    def test_another_cut(self):
        self.wrong(self.cut(2).read(1, CUT + 3, "f", "0.1"), "stale")

    def test_long_after(self):
        self.wrong(self.cut(0).read(1, CUT + 5 + faults.GRACE + 0.1, "f", "0.1"), "stale")

    def test_one_of_two_was_not_held_up(self):
        self.wrong(self.cut(0).write(2, CUT + 2, "f", "2.1").read(1, CUT + 3, "f", "0.1"), "stale")

    def test_reader_stopped(self):
        h = History().write(0, 10, "f", "0.1").fault("stop", 1, 11, 13).write(0, 12, "f", "0.2")
        self.wrong(h.read(1, 13.5, "f", "0.1"), "stale")

    def test_writer_stopped(self):
        h = History().write(2, 10, "f", "2.1").write(0, 11, "f", "0.2").fault("stop", 0, 12, 14)
        self.wrong(h.read(1, 13.5, "f", "2.1"), "stale")

    def test_neighbour_stopped(self):
        """Rank 4 is on the reader's node."""
        h = History().write(0, 10, "f", "0.1").fault("stop", 4, 11, 13).write(0, 12, "f", "0.2")
        self.wrong(h.read(1, 12.5, "f", "0.1"), "stale")

    def test_left_behind(self):
        self.wrong(History().write(0, 10, "f", "0.1").write(0, 11, "f", "0.2").lies(0, "f", "0.2").lies(1, "f", "0.1"), "on n1 f is out of date")

    def test_seen_late_that_they_left(self):
        """The injector has not looked since before the change: who made it was there all the same."""
        h = History().write(0, 10, "f", "0.1").write(1, 50, "f", "1.1", kind="replace").fault("stop", 3, 45, END - 3).lies(0, "f", "0.1")
        for rank in (0, 1, 2, 4, 5):
            h.fault("left", rank, 20, END + 1)
        self.right(h)

    def test_left_behind_by_who_left(self):
        h = History().write(0, 10, "f", "0.1").fault("cut", 1, CUT, CUT + 20).write(0, CUT + 2, "f", "0.2")
        self.right(h.fault("left", 1, CUT + 12, CUT + 12).fault("left", 4, CUT + 12, CUT + 12).lies(1, "f", "0.1"))

    def test_nobody_left_who_could_tell(self):
        """All others have left before the cut was over, or long after it."""
        def history(cut_until):
            h = History().write(0, 10, "f", "0.1").fault("cut", 1, CUT, cut_until).write(0, CUT + 2, "f", "0.2")
            for rank in (0, 2, 3, 5):
                h.silent.add(rank)
                h.note(rank, CUT + 11, "finish").fault("left", rank, CUT + 12, CUT + 12)
            return h
        self.right(history(CUT + 13).lies(1, "f", "0.1"))
        self.right(history(CUT + 13).read(1, CUT + 30, "f", "0.1"), "outdated")
        self.wrong(history(CUT + 5).lies(1, "f", "0.1"), "on n1 f is out of date")
        self.wrong(history(CUT + 5).read(1, CUT + 30, "f", "0.1"), "stale")
        # What their own node did they know.
        self.wrong(history(CUT + 13).write(4, CUT + 15, "f", "4.1").read(1, CUT + 30, "f", "0.1"), "stale")

    def test_who_knew_has_left_before_the_cut_was_over(self):
        """Rank 1 changes it beyond the cut, and leaves there, with its neighbour."""
        def history(cut_until):
            h = History().write(0, 10, "f", "0.1").fault("cut", 1, CUT, cut_until).write(1, CUT + 2, "f", "1.2")
            for rank in (1, 4):
                h.silent.add(rank)
                h.note(rank, CUT + 11, "finish").fault("left", rank, CUT + 12, CUT + 12)
            return h
        self.right(history(CUT + 13).read(0, CUT + 30, "f", "0.1").lies(0, "f", "0.1"), "outdated")
        self.wrong(history(CUT + 5).lies(0, "f", "0.1"), "on n0 f is out of date")

    def test_not_brought(self):
        """What was made on a node stays, if a rank says so, and what is newer cannot be had, or there is no room for it."""
        def history(kept, dead=()):
            h = History().write(1, 10, "f", "1.1").write(2, 12, "f", "2.1")
            for rank in dead:
                h.kill(rank, 13)
            if kept:
                h.events.append({"kind": "kept", "target": 4, "name": kept, "begin": 14, "end": 14})
            return h.lies(1, "f", "1.1")
        self.right(history("f", (2, 5)))
        self.wrong(history("g", (2, 5)), "on n1 f is out of date")
        self.wrong(history("f", (2,)), "on n1 f is out of date")
        self.right(history("f").fault("full", 1, 13, 13.5))
        self.wrong(history(None).fault("full", 1, 13, 13.5), "on n1 f is out of date")
        # At the same moment as that another node has written, whose ranks are there: that may have been replaced by what cannot be had.
        self.right(history("f", (2, 5)).write(0, 11.95, "f", "0.1"))
        self.wrong(history("f", (2, 5)).write(0, 12.5, "f", "0.1"), "on n1 f is out of date")
        self.wrong(history(None, (2, 5)).write(0, 11.95, "f", "0.1"), "on n1 f is out of date")

    def test_changed_on_both_sides(self):
        """Each side may have its own, until they have found each other again: then the later one."""
        def history(node, first=CUT + 1):
            return History().write(3, first, "f", "3.1").fault("cut", node, CUT, CUT + 5).write(1, CUT + 3, "f", "1.1")
        healed = CUT + 5 + faults.GRACE
        self.right(history(0).read(4, healed - 0.1, "f", "3.1").lies(1, "f", "1.1"), "outdated")
        self.wrong(history(0).read(4, healed + 0.1, "f", "3.1"), "stale")
        self.wrong(history(0).lies(1, "f", "3.1"), "on n1 f is out of date")
        self.wrong(history(2).read(4, CUT + 4, "f", "3.1"), "stale")
        self.wrong(history(0, CUT - 1).read(4, healed - 0.1, "f", "3.1"), "stale")
        self.right(history(0).read(4, CUT + 30, "f", "1.1"))

    def test_removed_and_left_behind(self):
        self.wrong(History().write(0, 10, "f", "0.1").op(0, 11, "remove", "f", 11.1, "done").lies(1, "f", "0.1"), "on n1 f is out of date")


class Absent(Judged):
    def test_there(self):
        self.wrong(History().write(0, 10, "f", "0.1").refused(1, 11, "f", errno.ENOENT), "ENOENT")

    def test_look(self):
        self.wrong(History().write(0, 10, "f", "0.1").refused(1, 11, "f", errno.ENOENT, kind="look"), "ENOENT")
        self.right(History().refused(1, 11, "f", errno.ENOENT, kind="look"), "absent")

    def test_seen_where_it_is_not(self):
        self.wrong(History().op(1, 11, "look", "f", 11.1, "there"), "absent")
        self.wrong(History().write(0, 9, "f", "0.1").op(0, 10, "remove", "f", 10.1, "done").op(1, 11, "look", "f", 11.1, "there"), "absent")

    def test_removed(self):
        self.right(History().write(0, 9, "f", "0.1").op(0, 10, "remove", "f", 10.1, "done").refused(1, 11, "f", errno.ENOENT), "absent")

    def test_cannot_be_removed(self):
        self.wrong(History().write(0, 9, "f", "0.1").op(0, 10, "remove", "f", 10.1, "absent"), "ENOENT")

    def test_somebody_is_left(self):
        self.wrong(History().refused(1, 11, "f", errno.ENOENT), "nobody is left")

    def test_nobody_is_left(self):
        h = History()
        for rank in range(6):
            h.refused(rank, 10 + rank / 10, "f", errno.ENOENT, took=3)
        self.right(h)

    def test_nobody_who_can_be_reached_is_left(self):
        def history(begin, by=1, until=None):
            h = History().fault("cut", 0, CUT, CUT + 5)
            for rank in (2, 4, 5):
                h.refused(rank, CUT - 1, "g", errno.ENOENT, took=30)
            for rank in (0, 3):
                h.events.append({"kind": "lost", "target": by, "of": rank, "begin": CUT + 2, "end": until})
                h.op(rank, END - 1, "look", "f", END - 1, "refused", errno.ENOENT)
            return h.refused(1, begin, "f", errno.EHOSTUNREACH).result()["wrong"]

        def refused(wrong):
            return any("EHOSTUNREACH" in w for w in wrong)
        self.assertFalse(refused(history(CUT + 3)))
        self.assertFalse(refused(history(CUT + 5.2)))
        self.assertFalse(refused(history(CUT + 5.2, by=2)))
        self.assertTrue(refused(history(CUT + 5.6, by=2, until=CUT + 5.5)))
        self.assertTrue(refused(history(CUT + 5.6, until=CUT + 5.5)))
        self.assertTrue(refused(history(CUT + 5 + faults.GRACE + 0.1)))

    def test_published_behind_a_cut(self):
        h = History().fault("cut", 0, CUT, CUT + 5).write(0, CUT + 1, "f", "0.1")
        self.right(h.refused(1, CUT + 3, "f", errno.ENOENT, kind="look"), "outdated")

    def test_published_before_the_cut(self):
        h = History().write(0, CUT - 1, "f", "0.1").fault("cut", 0, CUT, CUT + 5)
        self.wrong(h.refused(1, CUT + 3, "f", errno.ENOENT, kind="look"), "ENOENT")

    def test_published_behind_a_cut_that_is_healed(self):
        h = History().fault("cut", 0, CUT, CUT + 5).write(0, CUT + 1, "f", "0.1")
        self.wrong(h.refused(1, CUT + 5.01, "f", errno.ENOENT, kind="look"), "ENOENT")

    def test_published_by_who_is_not_found_again_yet(self):
        def history(reader, begin, until):
            h = History().fault("cut", 0, CUT, CUT + 5).write(0, CUT + 1, "f", "0.1")
            h.events.append({"kind": "lost", "target": reader, "of": 0, "begin": CUT + 2, "end": until})
            return h.refused(1, begin, "f", errno.ENOENT, kind="look")
        self.right(history(1, CUT + 5.2, CUT + 5.5), "outdated")
        self.right(history(2, CUT + 5.2, None), "outdated")
        self.wrong(history(1, CUT + 5.6, CUT + 5.5), "ENOENT")
        self.wrong(history(3, CUT + 5.2, CUT + 5.5), "ENOENT")  # (on the writer's node)
        self.wrong(history(1, CUT + 5 + faults.GRACE + 0.1, None), "ENOENT")

    def test_removed_on_one_side_and_made_on_the_other(self):
        """Each side may have its own, until they have found each other again: then the later one."""
        healed = CUT + 5 + faults.GRACE

        def history(node, made):
            h = History().write(3, 10, "f", "3.1").fault("cut", node, CUT, CUT + 5).op(3, CUT + 1, "remove", "f", CUT + 1.1, "done")
            return h.write(1, made, "f", "1.1")
        for kind, outcome in (("look", "absent"), ("remove", "refused"), ("read", "refused")):
            def told(h, at):
                return h.op(4, at, kind, "f", at + 0.1, outcome, *[errno.ENOENT] * (outcome == "refused"))
            self.right(told(history(0, CUT + 3), healed - 0.2), "outdated")
            self.wrong(told(history(0, CUT + 3), healed + 0.1), "ENOENT")
            self.wrong(told(history(2, CUT + 3), healed - 0.2), "ENOENT")
            self.wrong(told(history(0, healed + 0.1), CUT + 30), "ENOENT")

    def test_on_the_side_that_is_cut_off(self):
        h = History().fault("cut", 1, CUT, CUT + 5).write(0, CUT + 1, "f", "0.1")
        self.wrong(h.refused(1, CUT + 3, "f", errno.ENOENT, kind="look"), "ENOENT")


class Renames(Judged):
    """A file of rank 0, renamed over another one of its."""

    def whole(self):
        h = History().write(0, 5, "g", "0.1").write(0, 10, "f", "0.2")
        return h.op(0, 12, "rename", "f", 12.1, "done", to="g")

    def left(self):
        """Its child was killed while it wrote the first."""
        h = History().write(0, 5, "g", "0.1").write(0, 8, "f", "0.2")
        h.op(0, 10, "write", "f", 10.1, "killed", uid="0.3", child=True).note(0, 10.1, "child", 9)
        return h.op(0, 12, "rename", "f", 12.1, "done", to="g")

    def test_whole(self):
        self.right(self.whole().read(1, 13, "g", "0.2"))
        self.right(self.whole().refused(1, 13, "f", errno.ENOENT), "absent")
        self.wrong(self.whole().read(1, 13, "f", "0.2"), "stale")
        self.wrong(self.whole().read(1, 13, "g", "0.1"), "stale")
        self.wrong(self.whole().refused(1, 13, "g", errno.ENOENT), "ENOENT")
        self.wrong(self.whole().lies(0, "g", None, "0 bytes"), "no whole version")

    def test_there_and_back(self):
        """It would give a name back what it has had before, and is killed: who read that then has not seen this rename."""
        def history():
            h = History().write(0, 5, "f", "0.1").read(1, 6, "f", "0.1").op(0, 8, "rename", "f", 8.1, "done", to="g")
            h.write(0, 9, "f", "0.2").write(0, 9.5, "g", "0.3")
            return h.op(0, 10, "rename", "g", None, to="f").kill(0, 10.1)
        self.right(history().read(1, 11, "f", "0.3"))
        self.right(history().read(1, 11, "f", "0.2"))
        self.wrong(history().read(1, 9.8, "f", "0.1"), "stale")

    def test_left(self):
        self.right(self.left().refused(1, 13, "g", errno.ENOENT), "absent")
        self.right(self.left().read(1, 13, "g", "0.3"))  # it was published before
        self.right(self.left().read(1, 13, "g", "0.2"))  # it had not begun
        self.wrong(self.left().read(1, 13, "g", "0.1"), "stale")
        self.right(self.left().lies(0, "g", None, "0 bytes"))
        self.wrong(self.left().lies(1, "g", None, "0 bytes"), "no whole version")
        self.wrong(self.left().write(3, 14, "g", "3.1").lies(0, "g", None, "0 bytes"), "no whole version")

    def test_left_and_written_again(self):
        h = History().write(0, 5, "g", "0.1").op(0, 8, "write", "f", 8.1, "killed", uid="0.2", child=True).note(0, 8.1, "child", 9)
        h.write(0, 10, "f", "0.3").op(0, 12, "rename", "f", 12.1, "done", to="g")
        self.wrong(h.refused(1, 13, "g", errno.ENOENT), "ENOENT")

    def test_left_twice(self):
        h = self.left().op(0, 14, "rename", "g", 14.1, "done", to="h")
        self.right(h.refused(1, 15, "h", errno.ENOENT).lies(0, "h", None, "0 bytes"), "absent")
        h = self.left().op(0, 14, "rename", "g", 14.1, "done", to="h")
        self.wrong(h.lies(0, "g", None, "0 bytes"), "no whole version")

    def test_whole_over_what_was_left(self):
        h = self.left().write(0, 14, "f", "0.4").op(0, 15, "rename", "f", 15.1, "done", to="g")
        self.wrong(h.lies(0, "g", None, "0 bytes"), "no whole version")


class OutOfReach(Judged):
    def test_without_a_reason(self):
        self.wrong(History().write(0, 10, "f", "0.1").refused(1, 11, "f", errno.EHOSTUNREACH), "EHOSTUNREACH")

    def test_owner_cut(self):
        h = History().write(0, 10, "f", "0.1").fault("cut", 0, CUT, CUT + 5)
        self.right(h.refused(1, CUT + 1, "f", errno.EHOSTUNREACH, took=3), "out of reach")

    def test_homes_of_a_copy(self):
        """Rank 2 is stopped, who may be a home; 1 and 4 are of one node."""
        def history(*readers):
            h = History().write(0, 10, "f", "0.1").fault("stop", 2, CUT, CUT + 5)
            for rank in readers:
                h.read(rank, 11, "f", "0.1")
            return h
        self.right(history(4).refused(1, CUT + 1, "f", errno.EHOSTUNREACH), "out of reach")
        self.wrong(history(5).refused(1, CUT + 1, "f", errno.EHOSTUNREACH), "EHOSTUNREACH")
        self.wrong(history(4).refused(1, CUT + 1, "f", errno.EIO), "EIO")
        self.wrong(history(4).refused(1, CUT + 5 + faults.GRACE + 0.1, "f", errno.EHOSTUNREACH), "EHOSTUNREACH")

    def test_owner_cut_long_ago(self):
        h = History().write(0, 10, "f", "0.1").fault("cut", 0, CUT, CUT + 5)
        self.wrong(h.refused(1, CUT + 5 + faults.GRACE + 0.1, "f", errno.EHOSTUNREACH), "EHOSTUNREACH")

    def test_owner_killed(self):
        """Rank 3 is alive on its node, and has to serve the file in the end."""
        h = History().write(0, 10, "f", "0.1").kill(0, 11)
        self.right(h.refused(1, 12, "f", errno.EHOSTUNREACH), "out of reach")
        h = History().write(0, 10, "f", "0.1").kill(0, 11)
        self.wrong(h.refused(1, 11 + faults.GRACE + 0.1, "f", errno.EHOSTUNREACH), "EHOSTUNREACH")
        h = History().write(0, 10, "f", "0.1").kill(0, 11).kill(3, 11)
        self.right(h.refused(1, 11 + faults.GRACE + 0.1, "f", errno.EHOSTUNREACH), "out of reach")

    def test_half_written_since(self):
        h = History().write(0, 10, "f", "0.1").op(3, 10.5, "write", "f", 10.6, "killed", uid="3.1").note(3, 10.7, "child", 9).kill(0, 11)
        self.right(h.refused(1, 11 + faults.GRACE + 0.1, "f", errno.EHOSTUNREACH), "out of reach")

    def test_heir(self):
        """Rank 0 is killed; of 3 and 6, on its node, one has taken over what it left."""
        def left(begin):
            return History(9).write(0, 10, "f", "0.1").kill(0, 11).refused(1, begin, "f", errno.EHOSTUNREACH, took=1)
        self.right(left(22).heir(0, 3, 11.1).fault("stop", 3, 20, 30), "out of reach")
        self.wrong(left(22).heir(0, 6, 11.1).fault("stop", 3, 20, 30), "EHOSTUNREACH")
        self.wrong(left(22).fault("stop", 3, 20, 30), "EHOSTUNREACH")
        self.wrong(left(22).heir(0, 3, 11.1).fault("stop", 3, 12, 15), "EHOSTUNREACH")
        self.wrong(left(22).heir(0, 3, 11.1), "EHOSTUNREACH")
        # ... and that one is killed, too.
        self.right(left(22).heir(0, 3, 11.1).kill(3, 20).heir(3, 6, 20.1), "out of reach")
        self.wrong(left(28).heir(0, 3, 11.1).kill(3, 20).heir(3, 6, 20.1), "EHOSTUNREACH")
        self.right(left(28).heir(0, 3, 11.1).kill(3, 20).heir(3, 6, 20.1).fault("stop", 6, 26, 32), "out of reach")

    def test_wrecked(self):
        h = History().write(0, 10, "f", "0.1").fault("wreck", 1, 11, 12).refused(1, 11.5, "f", errno.EHOSTUNREACH)
        result = h.result()
        self.assertEqual((result["wrong"], result["wrecks"], result["joined"], result["unserved"]), ([], 1, 1, 1))
        h = History().write(0, 10, "f", "0.1").fault("wreck", 1, 11, 12).refused(1, 12.5, "f", errno.EHOSTUNREACH)
        self.wrong(h, "EHOSTUNREACH")
        h = History().write(0, 10, "f", "0.1").fault("wreck", 1, 11, 12).refused(1, 11.5, "f", errno.ENOENT)
        self.wrong(h, "ENOENT")

    def test_owner_wrecked_for_good(self):
        h = History().write(0, 10, "f", "0.1").fault("wreck", 0, 11, None).refused(1, 12, "f", errno.EHOSTUNREACH)
        self.right(h)
        h = History().write(0, 10, "f", "0.1").fault("wreck", 0, 11, None)
        self.wrong(h.refused(1, 11 + faults.GRACE + 0.1, "f", errno.EHOSTUNREACH), "EHOSTUNREACH")

    def test_no_room(self):
        self.wrong(History().write(0, 10, "f", "0.1").refused(1, 11, "f", errno.ENOSPC), "ENOSPC")
        self.right(History().write(0, 10, "f", "0.1").fault("full", 1, 10.5, 12).refused(1, 11, "f", errno.ENOSPC), "no room")
        self.wrong(History().write(0, 10, "f", "0.1").fault("full", 0, 10.5, 12).refused(1, 11, "f", errno.ENOSPC), "ENOSPC")

    def test_limit_of_a_neighbour(self):
        h = History().write(0, 10, "f", "0.1").note(4, 10.5, "limited", 0).refused(1, 11, "f", errno.EFBIG)
        self.wrong(h, "EFBIG")
        self.right(History().write(0, 10, "f", "0.1").note(1, 10.5, "limited", 0).refused(1, 11, "f", errno.EFBIG), "no room")

    def test_write_failed(self):
        self.wrong(History().op(0, 10, "write", "f", 10.1, "failed", errno.EHOSTUNREACH, "close", "gone", uid="0.1"), "EHOSTUNREACH")


class Times(Judged):
    def test_too_late(self):
        self.wrong(History().write(0, 10, "f", "0.1").read(1, 11, "f", "0.1", took=faults.READ_BOUND + 0.1), "too long")
        self.wrong(History().write(0, 10, "f", "0.1", took=faults.CHANGE_BOUND + 0.1), "too long")

    def test_as_long_as_it_was_cut_itself(self):
        h = History().write(0, 10, "f", "0.1").fault("cut", 1, 12, 17).fault("stop", 4, 12, 17)
        self.right(h.read(1, 11, "f", "0.1", took=faults.READ_BOUND + 4.9))
        h = History().write(0, 10, "f", "0.1").fault("cut", 1, 12, 17).fault("stop", 4, 12, 17)
        self.wrong(h.read(1, 11, "f", "0.1", took=faults.READ_BOUND + 5.1), "too long")

    def test_as_long_as_all_others_were_cut(self):
        def history(took):
            h = History().write(0, 10, "f", "0.1").fault("cut", 0, 12, 17).fault("cut", 2, 13, 18)
            return h.read(1, 11, "f", "0.1", took=took)
        self.right(history(faults.READ_BOUND + 3.9))
        self.wrong(history(faults.READ_BOUND + 4.1), "too long")

    def test_waited_for_what_only_homes_knew_that_are_away(self):
        """Ranks 2 and 5 are both homes, perhaps; rank 1 waits for what rank 0 has published."""
        def history(took=faults.TIMEOUT, second=5, begin=CUT + 1):
            h = History().write(0, 10, "f", "0.1").fault("stop", 2, CUT, CUT + 4).fault("stop", second, CUT + 3, CUT + 6)
            return h.refused(1, begin, "f", errno.ETIMEDOUT, took=took)
        self.right(history(), "out of reach")
        self.wrong(history(took=1), "before the time")
        self.wrong(history(second=2), "ETIMEDOUT")
        self.wrong(history(begin=CUT + 4 + faults.GRACE + 0.1), "ETIMEDOUT")
        h = History().write(0, 10, "f", "0.1").fault("cut", 2, CUT, CUT + 4)
        self.right(h.refused(1, CUT + 1, "f", errno.ETIMEDOUT, took=faults.TIMEOUT), "out of reach")

    def test_looked_at_what_only_homes_knew_that_are_away(self):
        """The same, but rank 1 does not wait."""
        def look(error=errno.EIO, second=5, begin=CUT + 3.5):
            h = History().write(0, 10, "f", "0.1").fault("stop", 2, CUT, CUT + 4).fault("stop", second, CUT + 3, CUT + 6)
            return h.refused(1, begin, "f", error, kind="look")
        self.right(look(), "out of reach")
        self.right(look(errno.EHOSTUNREACH), "out of reach")
        self.wrong(look(errno.ENOENT), "ENOENT")
        self.wrong(look(second=2), "EIO")
        self.wrong(look(begin=CUT + 4 + faults.GRACE + 0.1), "EIO")
        h = History().write(0, 10, "f", "0.1").fault("stop", 2, CUT, CUT + 4).fault("stop", 5, CUT + 3, CUT + 6)
        self.right(h.op(1, CUT + 3.5, "remove", "f", CUT + 3.6, "failed", errno.EIO, "unlink"), "out of reach")

    def test_waited_in_vain(self):
        self.right(History().refused(1, 10, "f", errno.ETIMEDOUT, took=faults.TIMEOUT), "waited in vain")
        self.wrong(History().refused(1, 10, "f", errno.ETIMEDOUT, took=faults.TIMEOUT - 1), "ETIMEDOUT before the time")
        self.wrong(History().write(0, 9, "f", "0.1").refused(1, 10, "f", errno.ETIMEDOUT, took=faults.TIMEOUT), "ETIMEDOUT")


class Ends(Judged):
    def test_died_by_itself(self):
        h = History().write(0, 10, "f", "0.1")
        h.silent.add(0)
        self.wrong(h, "nobody had killed it")

    def test_hung(self):
        h = History()
        h.wrong = "ranks [3] told nothing for 25 s"
        self.wrong(h, "told nothing")

    def test_left_too_early(self):
        self.wrong(History().fault("left", 0, 50, 50).fault("left", 1, END, END + 1).op(0, 1, "look", "f", 1.1, "refused", 2), "left at")

    def test_left_without_who_was_cut_off(self):
        h = History().fault("cut", 0, 45, 49).fault("left", 0, 50, 50)
        self.right(h)

    def test_left_over(self):
        self.wrong(History().write(0, 10, "f", "0.1", kind="replace").lies(0, "t/0.1", "0.1"), "t/0.1 is left over")
        self.right(History().op(0, 10, "replace", "f", None, uid="0.1").kill(0, 11).lies(0, "t/0.1", "0.1"))

    def test_half_a_file_left(self):
        self.wrong(History().write(0, 10, "f", "0.1").lies(1, "f", "0.1", "3 bytes of 9"), "no whole version")
        self.right(History().op(0, 10, "write", "f", None, uid="0.1").kill(0, 11).lies(0, "f", "0.1", "3 bytes of 9"))
        h = History().op(0, 10, "write", "f", None, uid="0.1").kill(0, 11).write(3, 12, "f", "3.1")
        self.wrong(h.lies(0, "f", "0.1", "3 bytes of 9"), "no whole version")

    def test_half_a_file_published(self):
        """Its writer had no room, closed it so, and was killed before he removed it; another node has it since."""
        def history(broke):
            h = History().op(0, 10, "write", "f", None, uid="0.1", opened=10.1, broke=broke).fault("full", 0, 9, 12).kill(0, 11)
            return h.lies(1, "f", None, "3 bytes without a first line")
        self.right(history(10.2))
        self.wrong(history(None), "no whole version")

    def test_all_of_a_file_left(self):
        """Its writer was killed between its last byte and the close: nobody was told of it."""
        def history():
            h = History().op(0, 10, "write", "f", 10.1, "killed", uid="0.1", child=True).note(0, 10.1, "child", 9)
            return h.write(1, 12, "f", "1.1").op(1, 13, "remove", "f", 13.1, "done")
        self.right(history().lies(0, "f", "0.1"))
        self.right(History().op(0, 10, "write", "f", 10.1, "killed", uid="0.1", child=True).note(0, 10.1, "child", 9)
                   .op(0, 11, "rename", "f", 11.1, "done", to="g").write(1, 12, "g", "1.1").lies(0, "g", "0.1"))
        self.wrong(history().lies(1, "f", "0.1"), "out of date")
        self.wrong(history().lies(0, "f", "1.1"), "out of date")
        h = History().op(0, 10, "write", "f", 10.1, "killed", uid="0.1", child=True).note(0, 10.1, "child", 9)
        h.read(1, 11, "f", "0.1").write(1, 12, "f", "1.1")
        self.wrong(h.lies(0, "f", "0.1"), "out of date")
        self.wrong(history().read(3, 12.5, "f", "1.1").lies(0, "f", "0.1"), "out of date")

    def test_what_was_left_is_removed(self):
        """It lies there, whatever others have made and removed since; once."""
        def history():
            h = History().op(0, 10, "write", "f", None, uid="0.1").kill(0, 11).write(1, 12, "f", "1.1")
            return h.op(1, 13, "remove", "f", 13.1, "done")
        self.right(history().op(3, 14, "remove", "f", 14.1, "done"))
        self.wrong(history().op(4, 14, "remove", "f", 14.1, "done"), "absent")
        self.wrong(history().op(3, 14, "remove", "f", 14.1, "done").op(3, 15, "remove", "f", 15.1, "done"), "absent")

    def test_from_nowhere(self):
        self.wrong(History().lies(1, "f", "9.9"), "never was there")


if __name__ == "__main__":
    unittest.main()
