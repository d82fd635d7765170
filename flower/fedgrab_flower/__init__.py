"""Fed-GraB under Flower: the C++ core trains, Flower carries the weights."""
