// Carries the precompiled header that every room with LibTorch shares.
