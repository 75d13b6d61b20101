// One request for more than this is a failure: no mutant is larger than a few kilobytes.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=256:allocator_may_return_null=0:detect_leaks=0:handle_abort=1";
}
