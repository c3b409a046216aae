"""The rescue: single shooting from many simulated candidates, for problems whose guessed paths lead nowhere."""
