// Carries the precompiled header that every module with LibTorch shares.
