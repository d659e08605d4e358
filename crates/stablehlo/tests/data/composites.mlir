module @jit_composites attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<9xf32>) -> (tensor<3xf32> {jax.result_info = "result[0][0]"}, tensor<3xi32> {jax.result_info = "result[0][1]"}, tensor<9xf32> {jax.result_info = "result[1]"}, tensor<9xf32> {jax.result_info = "result[2]"}, tensor<9xf32> {jax.result_info = "result[3]"}) {
    %cst = stablehlo.constant dense<0x7F800000> : tensor<9xf32>
    %cst_0 = stablehlo.constant dense<1.14472985> : tensor<9xf32>
    %cst_1 = stablehlo.constant dense<3.14159274> : tensor<9xf32>
    %cst_2 = stablehlo.constant dense<0.918938517> : tensor<9xf32>
    %cst_3 = stablehlo.constant dense<2.01490307> : tensor<9xf32>
    %cst_4 = stablehlo.constant dense<7.500000e+00> : tensor<9xf32>
    %cst_5 = stablehlo.constant dense<8.000000e+00> : tensor<9xf32>
    %cst_6 = stablehlo.constant dense<1.50563267E-7> : tensor<9xf32>
    %cst_7 = stablehlo.constant dense<7.000000e+00> : tensor<9xf32>
    %cst_8 = stablehlo.constant dense<9.98436917E-6> : tensor<9xf32>
    %cst_9 = stablehlo.constant dense<6.000000e+00> : tensor<9xf32>
    %cst_10 = stablehlo.constant dense<-0.138571098> : tensor<9xf32>
    %cst_11 = stablehlo.constant dense<5.000000e+00> : tensor<9xf32>
    %cst_12 = stablehlo.constant dense<12.5073433> : tensor<9xf32>
    %cst_13 = stablehlo.constant dense<4.000000e+00> : tensor<9xf32>
    %cst_14 = stablehlo.constant dense<-176.615036> : tensor<9xf32>
    %cst_15 = stablehlo.constant dense<3.000000e+00> : tensor<9xf32>
    %cst_16 = stablehlo.constant dense<771.323425> : tensor<9xf32>
    %cst_17 = stablehlo.constant dense<2.000000e+00> : tensor<9xf32>
    %cst_18 = stablehlo.constant dense<-1259.13916> : tensor<9xf32>
    %cst_19 = stablehlo.constant dense<676.520386> : tensor<9xf32>
    %cst_20 = stablehlo.constant dense<1.000000e+00> : tensor<9xf32>
    %cst_21 = stablehlo.constant dense<5.000000e-01> : tensor<9xf32>
    %0:2 = stablehlo.composite "chlo.top_k" %arg0 {composite_attributes = {k = 3 : i64}, decomposition = @chlo.top_k.impl, version = 1 : i32} : (tensor<9xf32>) -> (tensor<3xf32>, tensor<3xi32>)
    %1 = stablehlo.composite "chlo.erf" %arg0 {decomposition = @chlo.erf.impl, version = 1 : i32} : (tensor<9xf32>) -> tensor<9xf32>
    %2 = stablehlo.composite "chlo.asinh" %arg0 {decomposition = @chlo.asinh.impl, version = 1 : i32} : (tensor<9xf32>) -> tensor<9xf32>
    %3 = stablehlo.compare LT, %arg0, %cst_21 : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xi1>
    %4 = stablehlo.negate %arg0 : tensor<9xf32>
    %5 = stablehlo.subtract %arg0, %cst_20 : tensor<9xf32>
    %6 = stablehlo.select %3, %4, %5 : tensor<9xi1>, tensor<9xf32>
    %7 = stablehlo.add %6, %cst_20 : tensor<9xf32>
    %8 = stablehlo.divide %cst_19, %7 : tensor<9xf32>
    %9 = stablehlo.add %cst_20, %8 : tensor<9xf32>
    %10 = stablehlo.add %6, %cst_17 : tensor<9xf32>
    %11 = stablehlo.divide %cst_18, %10 : tensor<9xf32>
    %12 = stablehlo.add %9, %11 : tensor<9xf32>
    %13 = stablehlo.add %6, %cst_15 : tensor<9xf32>
    %14 = stablehlo.divide %cst_16, %13 : tensor<9xf32>
    %15 = stablehlo.add %12, %14 : tensor<9xf32>
    %16 = stablehlo.add %6, %cst_13 : tensor<9xf32>
    %17 = stablehlo.divide %cst_14, %16 : tensor<9xf32>
    %18 = stablehlo.add %15, %17 : tensor<9xf32>
    %19 = stablehlo.add %6, %cst_11 : tensor<9xf32>
    %20 = stablehlo.divide %cst_12, %19 : tensor<9xf32>
    %21 = stablehlo.add %18, %20 : tensor<9xf32>
    %22 = stablehlo.add %6, %cst_9 : tensor<9xf32>
    %23 = stablehlo.divide %cst_10, %22 : tensor<9xf32>
    %24 = stablehlo.add %21, %23 : tensor<9xf32>
    %25 = stablehlo.add %6, %cst_7 : tensor<9xf32>
    %26 = stablehlo.divide %cst_8, %25 : tensor<9xf32>
    %27 = stablehlo.add %24, %26 : tensor<9xf32>
    %28 = stablehlo.add %6, %cst_5 : tensor<9xf32>
    %29 = stablehlo.divide %cst_6, %28 : tensor<9xf32>
    %30 = stablehlo.add %27, %29 : tensor<9xf32>
    %31 = stablehlo.add %cst_4, %6 : tensor<9xf32>
    %32 = stablehlo.divide %6, %cst_4 : tensor<9xf32>
    %33 = stablehlo.log_plus_one %32 : tensor<9xf32>
    %34 = stablehlo.add %cst_3, %33 : tensor<9xf32>
    %35 = stablehlo.divide %31, %34 : tensor<9xf32>
    %36 = stablehlo.add %6, %cst_21 : tensor<9xf32>
    %37 = stablehlo.subtract %36, %35 : tensor<9xf32>
    %38 = stablehlo.multiply %37, %34 : tensor<9xf32>
    %39 = stablehlo.log %30 : tensor<9xf32>
    %40 = stablehlo.add %cst_2, %38 : tensor<9xf32>
    %41 = stablehlo.add %40, %39 : tensor<9xf32>
    %42 = stablehlo.abs %arg0 : tensor<9xf32>
    %43 = stablehlo.floor %42 : tensor<9xf32>
    %44 = stablehlo.subtract %42, %43 : tensor<9xf32>
    %45 = stablehlo.compare LT, %cst_21, %44 : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xi1>
    %46 = stablehlo.subtract %cst_20, %44 : tensor<9xf32>
    %47 = stablehlo.select %45, %46, %44 : tensor<9xi1>, tensor<9xf32>
    %48 = stablehlo.multiply %cst_1, %47 : tensor<9xf32>
    %49 = stablehlo.sine %48 : tensor<9xf32>
    %50 = stablehlo.log %49 : tensor<9xf32>
    %51 = stablehlo.subtract %cst_0, %50 : tensor<9xf32>
    %52 = stablehlo.subtract %51, %41 : tensor<9xf32>
    %53 = stablehlo.is_finite %50 : (tensor<9xf32>) -> tensor<9xi1>
    %54 = stablehlo.negate %50 : tensor<9xf32>
    %55 = stablehlo.select %53, %52, %54 : tensor<9xi1>, tensor<9xf32>
    %56 = stablehlo.select %3, %55, %41 : tensor<9xi1>, tensor<9xf32>
    %57 = stablehlo.abs %arg0 : tensor<9xf32>
    %58 = stablehlo.compare EQ, %57, %cst : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xi1>
    %59 = stablehlo.select %58, %cst, %56 : tensor<9xi1>, tensor<9xf32>
    return %0#0, %0#1, %1, %2, %59 : tensor<3xf32>, tensor<3xi32>, tensor<9xf32>, tensor<9xf32>, tensor<9xf32>
  }
  func.func private @chlo.asinh.impl(%arg0: tensor<9xf32>) -> tensor<9xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<9xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<9xf32>
    %cst_1 = stablehlo.constant dense<3.40282347E+38> : tensor<9xf32>
    %0 = stablehlo.sign %arg0 : tensor<9xf32>
    %1 = stablehlo.abs %arg0 : tensor<9xf32>
    %2 = stablehlo.sqrt %cst_1 : tensor<9xf32>
    %3 = stablehlo.compare GE, %1, %2 : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xi1>
    %4 = stablehlo.log %cst_0 : tensor<9xf32>
    %5 = stablehlo.log %1 : tensor<9xf32>
    %6 = stablehlo.add %4, %5 : tensor<9xf32>
    %7 = stablehlo.multiply %1, %1 : tensor<9xf32>
    %8 = stablehlo.add %cst, %7 : tensor<9xf32>
    %9 = stablehlo.sqrt %8 : tensor<9xf32>
    %10 = stablehlo.add %cst, %9 : tensor<9xf32>
    %11 = stablehlo.divide %7, %10 : tensor<9xf32>
    %12 = stablehlo.add %1, %11 : tensor<9xf32>
    %13 = stablehlo.log_plus_one %12 : tensor<9xf32>
    %14 = stablehlo.select %3, %6, %13 : tensor<9xi1>, tensor<9xf32>
    %15 = stablehlo.multiply %0, %14 : tensor<9xf32>
    return %15 : tensor<9xf32>
  }
  func.func private @chlo.erf.impl(%arg0: tensor<9xf32>) -> tensor<9xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<9xf32>
    %cst_0 = stablehlo.constant dense<-1.000000e+00> : tensor<9xf32>
    %cst_1 = stablehlo.constant dense<-0.0142647391> : tensor<9xf32>
    %cst_2 = stablehlo.constant dense<-0.00737332925> : tensor<9xf32>
    %cst_3 = stablehlo.constant dense<-0.00168282702> : tensor<9xf32>
    %cst_4 = stablehlo.constant dense<-2.13374049E-4> : tensor<9xf32>
    %cst_5 = stablehlo.constant dense<-1.45660715E-5> : tensor<9xf32>
    %cst_6 = stablehlo.constant dense<-0.0160960332> : tensor<9xf32>
    %cst_7 = stablehlo.constant dense<-2.954600e-03> : tensor<9xf32>
    %cst_8 = stablehlo.constant dense<-7.34990637E-4> : tensor<9xf32>
    %cst_9 = stablehlo.constant dense<-5.69250624E-5> : tensor<9xf32>
    %cst_10 = stablehlo.constant dense<-2.10102394E-6> : tensor<9xf32>
    %cst_11 = stablehlo.constant dense<2.77068146E-8> : tensor<9xf32>
    %cst_12 = stablehlo.constant dense<-2.72614237E-10> : tensor<9xf32>
    %cst_13 = stablehlo.constant dense<-4.000000e+00> : tensor<9xf32>
    %cst_14 = stablehlo.constant dense<4.000000e+00> : tensor<9xf32>
    %0 = stablehlo.clamp %cst_13, %arg0, %cst_14 : tensor<9xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<9xf32>
    %2 = stablehlo.multiply %cst_12, %1 : tensor<9xf32>
    %3 = stablehlo.add %2, %cst_11 : tensor<9xf32>
    %4 = stablehlo.multiply %3, %1 : tensor<9xf32>
    %5 = stablehlo.add %4, %cst_10 : tensor<9xf32>
    %6 = stablehlo.multiply %5, %1 : tensor<9xf32>
    %7 = stablehlo.add %6, %cst_9 : tensor<9xf32>
    %8 = stablehlo.multiply %7, %1 : tensor<9xf32>
    %9 = stablehlo.add %8, %cst_8 : tensor<9xf32>
    %10 = stablehlo.multiply %9, %1 : tensor<9xf32>
    %11 = stablehlo.add %10, %cst_7 : tensor<9xf32>
    %12 = stablehlo.multiply %11, %1 : tensor<9xf32>
    %13 = stablehlo.add %12, %cst_6 : tensor<9xf32>
    %14 = stablehlo.multiply %cst_5, %1 : tensor<9xf32>
    %15 = stablehlo.add %14, %cst_4 : tensor<9xf32>
    %16 = stablehlo.multiply %15, %1 : tensor<9xf32>
    %17 = stablehlo.add %16, %cst_3 : tensor<9xf32>
    %18 = stablehlo.multiply %17, %1 : tensor<9xf32>
    %19 = stablehlo.add %18, %cst_2 : tensor<9xf32>
    %20 = stablehlo.multiply %19, %1 : tensor<9xf32>
    %21 = stablehlo.add %20, %cst_1 : tensor<9xf32>
    %22 = stablehlo.multiply %0, %13 : tensor<9xf32>
    %23 = stablehlo.divide %22, %21 : tensor<9xf32>
    %24 = stablehlo.clamp %cst_0, %23, %cst : tensor<9xf32>
    return %24 : tensor<9xf32>
  }
  func.func private @chlo.top_k.impl(%arg0: tensor<9xf32>) -> (tensor<3xf32>, tensor<3xi32>) {
    %0 = stablehlo.iota dim = 0 : tensor<9xi32>
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<i32>, %arg4: tensor<i32>):
      %4 = stablehlo.compare GT, %arg1, %arg2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    }) : (tensor<9xf32>, tensor<9xi32>) -> (tensor<9xf32>, tensor<9xi32>)
    %2 = stablehlo.slice %1#0 [0:3] : (tensor<9xf32>) -> tensor<3xf32>
    %3 = stablehlo.slice %1#1 [0:3] : (tensor<9xi32>) -> tensor<3xi32>
    return %2, %3 : tensor<3xf32>, tensor<3xi32>
  }
}
