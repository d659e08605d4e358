module @jit_ode_solver attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> (tensor<2xf32> {jax.result_info = "result[0]"}, tensor<f32> {jax.result_info = "result[1]"}, tensor<i32> {jax.result_info = "result[2]"}) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %1 = stablehlo.add %0, %arg0 : tensor<2xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %2:5 = stablehlo.while(%iterArg = %arg1, %iterArg_2 = %cst_0, %iterArg_3 = %1, %iterArg_4 = %cst_1, %iterArg_5 = %c) : tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<i32>
    cond {
      %cst_6 = stablehlo.constant dense<1.000000e+01> : tensor<f32>
      %3 = stablehlo.compare LT, %iterArg_2, %cst_6, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c_7 = stablehlo.constant dense<4096> : tensor<i32>
      %4 = stablehlo.compare LT, %iterArg_5, %c_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_8 = stablehlo.constant dense<false> : tensor<i1>
      %5 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i1>) -> tensor<i1>
      %6 = stablehlo.compare NE, %3, %5, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %7 = stablehlo.convert %6 : tensor<i1>
      %c_9 = stablehlo.constant dense<false> : tensor<i1>
      %8 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<i1>) -> tensor<i1>
      %9 = stablehlo.compare NE, %4, %8, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %10 = stablehlo.convert %9 : tensor<i1>
      %11 = stablehlo.and %7, %10 : tensor<i1>
      stablehlo.return %11 : tensor<i1>
    } do {
      %3 = stablehlo.slice %iterArg_3 [0:1] : (tensor<2xf32>) -> tensor<1xf32>
      %4 = stablehlo.reshape %3 : (tensor<1xf32>) -> tensor<f32>
      %5 = stablehlo.slice %iterArg_3 [1:2] : (tensor<2xf32>) -> tensor<1xf32>
      %6 = stablehlo.reshape %5 : (tensor<1xf32>) -> tensor<f32>
      %7 = stablehlo.slice %iterArg [0:1] : (tensor<2xf32>) -> tensor<1xf32>
      %8 = stablehlo.reshape %7 : (tensor<1xf32>) -> tensor<f32>
      %cst_6 = stablehlo.constant dense<1.500000e+00> : tensor<f32>
      %9 = stablehlo.add %cst_6, %8 : tensor<f32>
      %10 = stablehlo.multiply %9, %4 : tensor<f32>
      %11 = stablehlo.multiply %4, %6 : tensor<f32>
      %12 = stablehlo.subtract %10, %11 : tensor<f32>
      %13 = stablehlo.multiply %4, %6 : tensor<f32>
      %14 = stablehlo.slice %iterArg [1:2] : (tensor<2xf32>) -> tensor<1xf32>
      %15 = stablehlo.reshape %14 : (tensor<1xf32>) -> tensor<f32>
      %cst_7 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
      %16 = stablehlo.add %cst_7, %15 : tensor<f32>
      %17 = stablehlo.multiply %16, %6 : tensor<f32>
      %18 = stablehlo.subtract %13, %17 : tensor<f32>
      %19 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %20 = stablehlo.broadcast_in_dim %18, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %21 = stablehlo.concatenate %19, %20, dim = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
      %22 = stablehlo.convert %iterArg_4 : tensor<f32>
      %23 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %24 = stablehlo.multiply %23, %21 : tensor<2xf32>
      %cst_8 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %25 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %26 = stablehlo.divide %24, %25 : tensor<2xf32>
      %27 = stablehlo.add %iterArg_3, %26 : tensor<2xf32>
      %28 = stablehlo.slice %27 [0:1] : (tensor<2xf32>) -> tensor<1xf32>
      %29 = stablehlo.reshape %28 : (tensor<1xf32>) -> tensor<f32>
      %30 = stablehlo.slice %27 [1:2] : (tensor<2xf32>) -> tensor<1xf32>
      %31 = stablehlo.reshape %30 : (tensor<1xf32>) -> tensor<f32>
      %32 = stablehlo.slice %iterArg [0:1] : (tensor<2xf32>) -> tensor<1xf32>
      %33 = stablehlo.reshape %32 : (tensor<1xf32>) -> tensor<f32>
      %cst_9 = stablehlo.constant dense<1.500000e+00> : tensor<f32>
      %34 = stablehlo.add %cst_9, %33 : tensor<f32>
      %35 = stablehlo.multiply %34, %29 : tensor<f32>
      %36 = stablehlo.multiply %29, %31 : tensor<f32>
      %37 = stablehlo.subtract %35, %36 : tensor<f32>
      %38 = stablehlo.multiply %29, %31 : tensor<f32>
      %39 = stablehlo.slice %iterArg [1:2] : (tensor<2xf32>) -> tensor<1xf32>
      %40 = stablehlo.reshape %39 : (tensor<1xf32>) -> tensor<f32>
      %cst_10 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
      %41 = stablehlo.add %cst_10, %40 : tensor<f32>
      %42 = stablehlo.multiply %41, %31 : tensor<f32>
      %43 = stablehlo.subtract %38, %42 : tensor<f32>
      %44 = stablehlo.broadcast_in_dim %37, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %45 = stablehlo.broadcast_in_dim %43, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %46 = stablehlo.concatenate %44, %45, dim = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
      %cst_11 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
      %47 = stablehlo.multiply %iterArg_4, %cst_11 : tensor<f32>
      %cst_12 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
      %48 = stablehlo.divide %47, %cst_12 : tensor<f32>
      %49 = stablehlo.convert %48 : tensor<f32>
      %50 = stablehlo.broadcast_in_dim %49, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %51 = stablehlo.multiply %50, %46 : tensor<2xf32>
      %52 = stablehlo.add %iterArg_3, %51 : tensor<2xf32>
      %53 = stablehlo.slice %52 [0:1] : (tensor<2xf32>) -> tensor<1xf32>
      %54 = stablehlo.reshape %53 : (tensor<1xf32>) -> tensor<f32>
      %55 = stablehlo.slice %52 [1:2] : (tensor<2xf32>) -> tensor<1xf32>
      %56 = stablehlo.reshape %55 : (tensor<1xf32>) -> tensor<f32>
      %57 = stablehlo.slice %iterArg [0:1] : (tensor<2xf32>) -> tensor<1xf32>
      %58 = stablehlo.reshape %57 : (tensor<1xf32>) -> tensor<f32>
      %cst_13 = stablehlo.constant dense<1.500000e+00> : tensor<f32>
      %59 = stablehlo.add %cst_13, %58 : tensor<f32>
      %60 = stablehlo.multiply %59, %54 : tensor<f32>
      %61 = stablehlo.multiply %54, %56 : tensor<f32>
      %62 = stablehlo.subtract %60, %61 : tensor<f32>
      %63 = stablehlo.multiply %54, %56 : tensor<f32>
      %64 = stablehlo.slice %iterArg [1:2] : (tensor<2xf32>) -> tensor<1xf32>
      %65 = stablehlo.reshape %64 : (tensor<1xf32>) -> tensor<f32>
      %cst_14 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
      %66 = stablehlo.add %cst_14, %65 : tensor<f32>
      %67 = stablehlo.multiply %66, %56 : tensor<f32>
      %68 = stablehlo.subtract %63, %67 : tensor<f32>
      %69 = stablehlo.broadcast_in_dim %62, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %70 = stablehlo.broadcast_in_dim %68, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %71 = stablehlo.concatenate %69, %70, dim = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
      %cst_15 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %72 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %73 = stablehlo.multiply %72, %21 : tensor<2xf32>
      %cst_16 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
      %74 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %75 = stablehlo.multiply %74, %46 : tensor<2xf32>
      %76 = stablehlo.add %73, %75 : tensor<2xf32>
      %cst_17 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
      %77 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %78 = stablehlo.multiply %77, %71 : tensor<2xf32>
      %79 = stablehlo.add %76, %78 : tensor<2xf32>
      %80 = stablehlo.convert %iterArg_4 : tensor<f32>
      %81 = stablehlo.broadcast_in_dim %80, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %82 = stablehlo.multiply %81, %79 : tensor<2xf32>
      %cst_18 = stablehlo.constant dense<9.000000e+00> : tensor<f32>
      %83 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %84 = stablehlo.divide %82, %83 : tensor<2xf32>
      %85 = stablehlo.add %iterArg_3, %84 : tensor<2xf32>
      %86 = stablehlo.slice %85 [0:1] : (tensor<2xf32>) -> tensor<1xf32>
      %87 = stablehlo.reshape %86 : (tensor<1xf32>) -> tensor<f32>
      %88 = stablehlo.slice %85 [1:2] : (tensor<2xf32>) -> tensor<1xf32>
      %89 = stablehlo.reshape %88 : (tensor<1xf32>) -> tensor<f32>
      %90 = stablehlo.slice %iterArg [0:1] : (tensor<2xf32>) -> tensor<1xf32>
      %91 = stablehlo.reshape %90 : (tensor<1xf32>) -> tensor<f32>
      %cst_19 = stablehlo.constant dense<1.500000e+00> : tensor<f32>
      %92 = stablehlo.add %cst_19, %91 : tensor<f32>
      %93 = stablehlo.multiply %92, %87 : tensor<f32>
      %94 = stablehlo.multiply %87, %89 : tensor<f32>
      %95 = stablehlo.subtract %93, %94 : tensor<f32>
      %96 = stablehlo.multiply %87, %89 : tensor<f32>
      %97 = stablehlo.slice %iterArg [1:2] : (tensor<2xf32>) -> tensor<1xf32>
      %98 = stablehlo.reshape %97 : (tensor<1xf32>) -> tensor<f32>
      %cst_20 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
      %99 = stablehlo.add %cst_20, %98 : tensor<f32>
      %100 = stablehlo.multiply %99, %89 : tensor<f32>
      %101 = stablehlo.subtract %96, %100 : tensor<f32>
      %102 = stablehlo.broadcast_in_dim %95, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %103 = stablehlo.broadcast_in_dim %101, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %104 = stablehlo.concatenate %102, %103, dim = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
      %cst_21 = stablehlo.constant dense<-5.000000e+00> : tensor<f32>
      %105 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %106 = stablehlo.multiply %105, %21 : tensor<2xf32>
      %cst_22 = stablehlo.constant dense<7.200000e+01> : tensor<f32>
      %107 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %108 = stablehlo.divide %106, %107 : tensor<2xf32>
      %cst_23 = stablehlo.constant dense<1.200000e+01> : tensor<f32>
      %109 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %110 = stablehlo.divide %46, %109 : tensor<2xf32>
      %111 = stablehlo.add %108, %110 : tensor<2xf32>
      %cst_24 = stablehlo.constant dense<9.000000e+00> : tensor<f32>
      %112 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %113 = stablehlo.divide %71, %112 : tensor<2xf32>
      %114 = stablehlo.add %111, %113 : tensor<2xf32>
      %cst_25 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
      %115 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %116 = stablehlo.divide %104, %115 : tensor<2xf32>
      %117 = stablehlo.subtract %114, %116 : tensor<2xf32>
      %118 = stablehlo.convert %iterArg_4 : tensor<f32>
      %119 = stablehlo.broadcast_in_dim %118, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %120 = stablehlo.multiply %119, %117 : tensor<2xf32>
      %121 = stablehlo.abs %iterArg_3 : tensor<2xf32>
      %122 = stablehlo.abs %85 : tensor<2xf32>
      %123 = stablehlo.maximum %121, %122 : tensor<2xf32>
      %cst_26 = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
      %124 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %125 = stablehlo.multiply %124, %123 : tensor<2xf32>
      %cst_27 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
      %126 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %127 = stablehlo.add %126, %125 : tensor<2xf32>
      %128 = stablehlo.divide %120, %127 : tensor<2xf32>
      %129 = stablehlo.multiply %128, %128 : tensor<2xf32>
      %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %130 = stablehlo.reduce(%129 init: %cst_28) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
      %cst_29 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %131 = stablehlo.divide %130, %cst_29 : tensor<f32>
      %132 = stablehlo.sqrt %131 : tensor<f32>
      %cst_30 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %133 = stablehlo.compare LE, %132, %cst_30, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_31 = stablehlo.constant dense<-0.333333343> : tensor<f32>
      %134 = stablehlo.power %132, %cst_31 : tensor<f32>
      %cst_32 = stablehlo.constant dense<0.899999976> : tensor<f32>
      %135 = stablehlo.multiply %cst_32, %134 : tensor<f32>
      %cst_33 = stablehlo.constant dense<2.000000e-01> : tensor<f32>
      %cst_34 = stablehlo.constant dense<5.000000e+00> : tensor<f32>
      %136 = func.call @clip(%135, %cst_33, %cst_34) : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %137 = stablehlo.add %iterArg_2, %iterArg_4 : tensor<f32>
      %138 = func.call @_where(%133, %137, %iterArg_2) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %139 = func.call @_where_0(%133, %85, %iterArg_3) : (tensor<i1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %140 = stablehlo.convert %iterArg_4 : tensor<f32>
      %141 = stablehlo.multiply %140, %136 : tensor<f32>
      %cst_35 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
      %142 = stablehlo.minimum %141, %cst_35 : tensor<f32>
      %c_36 = stablehlo.constant dense<1> : tensor<i32>
      %143 = stablehlo.add %iterArg_5, %c_36 : tensor<i32>
      stablehlo.return %iterArg, %138, %139, %142, %143 : tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<i32>
    }
    return %2#2, %2#1, %2#4 : tensor<2xf32>, tensor<f32>, tensor<i32>
  }
  func.func private @clip(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.maximum %0, %arg0 : tensor<f32>
    %2 = stablehlo.convert %arg2 : tensor<f32>
    %3 = stablehlo.minimum %2, %1 : tensor<f32>
    return %3 : tensor<f32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @_where_0(%arg0: tensor<i1>, %arg1: tensor<2xf32>, %arg2: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
