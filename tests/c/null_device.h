/*
 * A plugin without a device, whose functions do as little as the C API permits, so that the time of a benchmark is
 * almost only that of its caller. Each buffer and each event is an allocation of one word. A program is a text, and has
 * as many outputs as arguments.
 */
#ifndef NULL_DEVICE_H
#define NULL_DEVICE_H

#include <stdlib.h>

#include "xla/pjrt/c/pjrt_c_api.h"

/* The object that serves as client, device and executable. Its content is never read. */
static uint64_t null_object;
static PJRT_Device *null_devices[] = {(PJRT_Device *)&null_object};
static const int64_t null_dimensions[] = {4};

#define NULL_FUNCTION(name, body)                                       \
    static PJRT_Error *null_##name(PJRT_##name##_Args *args) {          \
        body;                                                           \
        return NULL;                                                    \
    }

static void null_error_destroy(PJRT_Error_Destroy_Args *args) { (void)args; }
static void null_error_message(PJRT_Error_Message_Args *args) { (void)args; }
NULL_FUNCTION(Error_GetCode, (void)args)
NULL_FUNCTION(Client_Create, args->client = (PJRT_Client *)&null_object)
NULL_FUNCTION(Client_Destroy, (void)args)
NULL_FUNCTION(Client_AddressableDevices, args->addressable_devices = null_devices; args->num_addressable_devices = 1)
NULL_FUNCTION(Client_Compile, args->executable = (PJRT_LoadedExecutable *)&null_object)
NULL_FUNCTION(Client_BufferFromHostBuffer, args->buffer = malloc(8); args->done_with_host_buffer = malloc(8))
NULL_FUNCTION(LoadedExecutable_Destroy, (void)args)
NULL_FUNCTION(LoadedExecutable_GetExecutable, args->executable = (PJRT_Executable *)&null_object)
NULL_FUNCTION(LoadedExecutable_AddressableDevices, args->addressable_devices = null_devices;
              args->num_addressable_devices = 1)
NULL_FUNCTION(Executable_Destroy, (void)args)
NULL_FUNCTION(Executable_NumOutputs, args->num_outputs = 1)
NULL_FUNCTION(Buffer_Destroy, free(args->buffer))
NULL_FUNCTION(Buffer_ElementType, args->type = PJRT_Buffer_Type_F32)
NULL_FUNCTION(Buffer_Dimensions, args->dims = null_dimensions; args->num_dims = 1)
NULL_FUNCTION(Buffer_Device, args->device = null_devices[0])
NULL_FUNCTION(Buffer_ReadyEvent, args->event = malloc(8))
NULL_FUNCTION(Event_Await, (void)args)
NULL_FUNCTION(Event_Destroy, free(args->event))
NULL_FUNCTION(Event_IsReady, args->is_ready = true)
NULL_FUNCTION(LoadedExecutable_Execute, args->output_lists[0][0] = malloc(8);
              if (args->device_complete_events != NULL) args->device_complete_events[0] = malloc(8))

#define NULL_SLOT(name) .PJRT_##name = null_##name

static const PJRT_Api null_api = {
    .struct_size = PJRT_Api_STRUCT_SIZE,
    .pjrt_api_version = {PJRT_Api_Version_STRUCT_SIZE, NULL, PJRT_API_MAJOR, PJRT_API_MINOR},
    .PJRT_Error_Destroy = null_error_destroy,
    .PJRT_Error_Message = null_error_message,
    NULL_SLOT(Error_GetCode),
    NULL_SLOT(Client_Create),
    NULL_SLOT(Client_Destroy),
    NULL_SLOT(Client_AddressableDevices),
    NULL_SLOT(Client_Compile),
    NULL_SLOT(Client_BufferFromHostBuffer),
    NULL_SLOT(LoadedExecutable_Destroy),
    NULL_SLOT(LoadedExecutable_GetExecutable),
    NULL_SLOT(LoadedExecutable_AddressableDevices),
    NULL_SLOT(LoadedExecutable_Execute),
    NULL_SLOT(Executable_Destroy),
    NULL_SLOT(Executable_NumOutputs),
    NULL_SLOT(Buffer_Destroy),
    NULL_SLOT(Buffer_ElementType),
    NULL_SLOT(Buffer_Dimensions),
    NULL_SLOT(Buffer_Device),
    NULL_SLOT(Buffer_ReadyEvent),
    NULL_SLOT(Event_Await),
    NULL_SLOT(Event_Destroy),
    NULL_SLOT(Event_IsReady),
};

#endif
