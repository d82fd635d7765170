"""A program that is killed at any system call goes on where it was: nothing finished is lost, results are the same to the bit."""
import os
import unittest

from killing import SCENARIOS, kill

import harness

KILLS = int(os.environ.get("KILLS", "6"))  # of each scenario


class Killed(harness.Case):
    def test_at_a_system_call(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario.name):
                folder = self.folder / scenario.name.replace(" ", "-")
                folder.mkdir()
                calls, *_ = kill(scenario, KILLS, folder, seed=1)
                self.assertGreater(calls, 100, "hardly any call was seen: does the library reach the program?")


if __name__ == "__main__":
    unittest.main()
