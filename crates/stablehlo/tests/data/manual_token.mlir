module @jit_manual_token attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]> {stablehlo.mesh = {axes = [{name = "x", size = 4 : i64}]}}
  sdy.mesh @empty_mesh = <[]> {stablehlo.mesh = {axes = []}}
  func.func public @main(%arg0: !stablehlo.token {jax.token = true}, %arg1: tensor<8xf32>) -> (!stablehlo.token {jax.token = true}, tensor<8xf32> {jax.result_info = "result"}) {
    %0:2 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, []>, <@mesh, [{"x"}]>] out_shardings=[<@mesh, []>, <@mesh, [{"x"}]>] manual_axes={"x"} (%arg2: !stablehlo.token, %arg3: tensor<2xf32>) {
      %1 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg2, %arg3) {has_side_effect = true, mhlo.backend_config = {index = 0 : ui64}, operand_layouts = [dense<> : tensor<0xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<> : tensor<0xindex>], sdy.sharding = #sdy.sharding_per_value<[<@empty_mesh, []>]>} : (!stablehlo.token, tensor<2xf32>) -> !stablehlo.token
      sdy.return %1, %arg3 : !stablehlo.token, tensor<2xf32>
    } : (!stablehlo.token, tensor<8xf32>) -> (!stablehlo.token, tensor<8xf32>)
    return %0#0, %0#1 : !stablehlo.token, tensor<8xf32>
  }
}
