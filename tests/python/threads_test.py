"""What threads of a program that call other ranks tell of each other, for prism check."""
import concurrent.futures
import importlib.util
import pathlib
import queue
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def watch():
    """Told notes, and what a thread calls with the name of its call."""
    spec = importlib.util.spec_from_file_location("threads", ROOT / "shim/rendezvous/threads.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    notes = []
    lines = {}  # where the thread of a call was given its work

    def tell(text):
        notes.append(text.replace("prism:", ""))

    def is_of_python_thread(frame):
        while frame.f_back is not None:
            frame = frame.f_back
        return frame.f_code.co_name == "_bootstrap"

    def line_of(frame):
        while frame is not None and frame.f_code.co_filename != __file__:
            frame = frame.f_back
        return None if frame is None else frame.f_code.co_name

    introduce = module._tell_threads(tell, is_of_python_thread, line_of)

    def call(name):
        lines[name] = introduce()
        notes.append(name)

    return notes, call, lines


NOTES, CALL, LINES = watch()  # classes of Python's are changed once


class Threads(unittest.TestCase):
    def setUp(self):
        CALL("before")
        NOTES.clear()

    def expect_order(self, other):
        """The main thread's word, heard by the other before its call, whose word the main one hears."""
        kinds = [note.split(":")[0] for note in NOTES]
        self.assertEqual(kinds, ["word", "thread", "heard", other, "word", "heard", "behind"], NOTES)
        numbers = [note.split(":")[1] for note in NOTES if note.startswith(("word", "heard"))]
        self.assertEqual(numbers[:2], [numbers[0]] * 2)
        self.assertEqual(numbers[2:], [numbers[2]] * 2)

    def test_where_it_was_given_its_work(self):
        thread = threading.Thread(target=CALL, args=("started",))
        thread.start()
        thread.join()
        concurrent.futures.ThreadPoolExecutor(1).submit(CALL, "submitted").result()
        name = "test_where_it_was_given_its_work"
        self.assertEqual([LINES[each] for each in ("before", "started", "submitted")],
                         [None, name, name])

    def test_one_that_is_started_and_joined(self):
        thread = threading.Thread(target=CALL, args=("joined",))
        thread.start()
        thread.join()
        CALL("behind")
        self.expect_order("joined")

    def test_one_that_a_future_stands_for(self):
        pool = concurrent.futures.ThreadPoolExecutor(1)
        pool.submit(CALL, "task").result()
        CALL("behind")
        self.expect_order("task")

    def test_one_that_sets_an_event(self):
        event = threading.Event()
        thread = threading.Thread(target=lambda: (CALL("set"), event.set()))
        thread.start()
        event.wait()
        CALL("behind")
        self.expect_order("set")
        thread.join()

    def test_one_that_takes_from_a_queue(self):
        tasks = queue.Queue()
        thread = threading.Thread(target=lambda: CALL(tasks.get()), daemon=True)
        thread.start()
        CALL("between")
        tasks.put("taken")
        thread.join()
        heard = [note for note in NOTES if note.startswith("heard")]
        self.assertEqual(NOTES[-4:], [NOTES[-4], "taken", NOTES[-2], NOTES[-1]], NOTES)
        self.assertEqual(NOTES.index("thread:1"), NOTES.index("between") + 2, NOTES)
        self.assertGreaterEqual(len(heard), 2)

    def test_one_that_makes_no_call_says_nothing_but_passes_on_what_it_has_heard(self):
        event = threading.Event()
        threading.Thread(target=lambda: (event.wait(), CALL("last"))).start()
        thread = threading.Thread(target=event.set)
        CALL("first")
        thread.start()
        thread.join()
        for other in threading.enumerate():
            if other is not threading.main_thread() and not other.daemon:
                other.join(1)
        word = [note for note in NOTES[:NOTES.index("last")] if note.startswith("word")][-1]
        self.assertIn(word.replace("word", "heard"), NOTES[NOTES.index("first"):])


if __name__ == "__main__":
    unittest.main()
