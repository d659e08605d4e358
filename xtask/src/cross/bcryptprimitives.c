/* The library of random numbers that the standard library of Rust imports, for versions of Wine that lack it. */
__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *data, unsigned long size);

__declspec(dllexport) int __stdcall ProcessPrng(void *data, unsigned long long size) {
    return SystemFunction036(data, (unsigned long)size) != 0;
}
