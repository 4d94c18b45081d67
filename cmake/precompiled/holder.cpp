// The one file of a library that holds a precompiled header for others.
