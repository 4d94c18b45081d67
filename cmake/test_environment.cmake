# Read by ctest before it runs a test: each test compiles anew, and leaves the user's cache alone.
set(ENV{TCC_CACHE_DIR} off)
