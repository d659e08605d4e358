// Calls the C library from Go through cgo. CGO_CFLAGS and CGO_LDFLAGS name the headers and the library.
package main

/*
#include <stdlib.h>
#include "device_plugin.h"
*/
import "C"

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"unsafe"
)

const program = `func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<3xf32>
  %sum = stablehlo.add %x, %one : tensor<3xf32>
  return %sum : tensor<3xf32>
}`

var failure *C.dp_error

func text(s C.dp_string) string {
	return C.GoStringN(s.data, C.int(s.size))
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

func check(code C.dp_code) {
	if code != C.DP_OK {
		fail(text(C.dp_error_message(failure)))
	}
}

func main() {
	if C.dp_abi_version() != C.DP_ABI_VERSION || strings.Count(text(C.dp_version()), ".") != 2 {
		fail("the versions differ")
	}
	var registry *C.dp_registry
	check(C.dp_registry_new(nil, &registry, &failure))
	var plugin *C.dp_plugin
	name := C.CString("pjrt_cpu")
	check(C.dp_registry_find(registry, name, &plugin, &failure))
	var client *C.dp_client
	check(C.dp_plugin_create_client(plugin, nil, nil, &client, &failure))

	// A struct that is passed to C must not point to memory of Go.
	data := (*[3]C.float)(C.malloc(12))
	*data = [3]C.float{1, 2, 3}
	extents := (*C.int64_t)(C.malloc(8))
	*extents = 3
	upload := C.dp_upload{struct_size: C.sizeof_dp_upload, data: unsafe.Pointer(data), size: 12,
		element_type: C.DP_F32, dimensions: extents, dimensions_size: 1}
	var x *C.dp_buffer
	check(C.dp_client_upload(client, &upload, &x, &failure))

	var code *C.dp_program
	format := C.CString("mlir")
	source := C.CBytes([]byte(program))
	check(C.dp_program_new(format, source, C.size_t(len(program)), &code, &failure))
	var executable *C.dp_loaded_executable
	check(C.dp_client_compile(client, code, nil, &executable, &failure))
	var y *C.dp_buffer
	check(C.dp_loaded_executable_execute(executable, &x, 1, nil, 0, nil, &y, 1, nil, &failure))

	// Handles are not addresses. The garbage collector must not mistake them for its own.
	var kept []*C.dp_options
	for range [1000]int{} {
		kept = append(kept, C.dp_options_new())
		if len(kept)%3 == 0 {
			check(C.dp_release(unsafe.Pointer(kept[len(kept)-1])))
			runtime.GC()
		}
	}
	runtime.KeepAlive(kept)

	var result [3]C.float
	check(C.dp_buffer_to_host(y, nil, unsafe.Pointer(&result), 12, &failure))
	if !reflect.DeepEqual(result, [3]C.float{2, 3, 4}) {
		fail(result)
	}

	// A handle that was released is an error, not undefined behaviour.
	check(C.dp_release(unsafe.Pointer(x)))
	var size C.size_t
	if got := C.dp_buffer_host_size(x, &size, &failure); got != 3 || got != C.DP_INVALID_ARGUMENT {
		fail(got)
	}
	if message := text(C.dp_error_message(failure)); !strings.Contains(message, "dp_buffer_host_size") {
		fail(message)
	}
	if C.dp_error_code(failure) != 3 {
		fail("the error has another code")
	}
	for _, handle := range []unsafe.Pointer{unsafe.Pointer(failure), unsafe.Pointer(y), unsafe.Pointer(executable),
		unsafe.Pointer(code), unsafe.Pointer(client), unsafe.Pointer(plugin), unsafe.Pointer(registry)} {
		check(C.dp_release(handle))
	}
}
