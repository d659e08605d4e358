//! Tests attributes of arguments, results and modules, and broadcasting.

use stablehlo::VerifyLevel;
use stablehlo::builder::*;
use stablehlo::ir::*;

use super::{build, expect_round_trip, floats, tensor};

#[test]
fn donation_shardings_memory_kinds_and_layouts() {
    let module = ModuleBuilder::new("step");
    module.partitions(4).replicas(1).mesh("mesh", &[("x", 2), ("y", 2)]).unwrap();
    assert!(module.mesh("mesh", &[("x", 2)]).is_err() && module.mesh("empty", &[("x", 0)]).is_err());
    let ty = tensor(&[4, 2], ElementType::F32);
    let rows = Sharding::mesh("mesh").dimension(&["x", "y"]).dimension(&[]);
    let main = module.function("main", |f| {
        let x = f.argument(Argument::new(&ty).donated_to(0).sharding(&rows))?;
        let y = f.argument(Argument::new(&ty).donated().memory_kind("pinned_host").minor_to_major(&[0, 1]))?;
        f.output(
            0,
            Output::new().sharding(&Sharding::mesh("mesh").dimension(&["x"]).dimension(&[]).replicated_along(&["y"])),
        );
        f.output(1, Output::new().memory_kind("device").info("y").minor_to_major(&[1, 0]));
        let x = f.sharding_constraint(x, &rows)?;
        Ok((f.add(x, y)?, y))
    });
    main.unwrap();
    let module = module.build().unwrap();
    expect_round_trip(&module, "step");
    let text = module.to_string();
    for expected in [
        "module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32}",
        "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>",
        "tf.aliasing_output = 0 : i32",
        "sdy.sharding = #sdy.sharding<@mesh, [{\"x\", \"y\"}, {}]>",
        "jax.buffer_donor = true",
        "mhlo.memory_kind = \"pinned_host\"",
        "#sdy.sharding<@mesh, [{\"x\"}, {}], replicated={\"y\"}>",
        "jax.result_info = \"y\"",
        "mhlo.layout_mode = \"{0,1}\"",
        "mhlo.layout_mode = \"{1,0}\"",
        "sdy.sharding_constraint",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn gspmd_shardings() {
    let module = build(|f| {
        let x = f.argument(Argument::new(tensor(&[4], ElementType::F32)).sharding(&Sharding::tiled(&[2])))?;
        f.output(0, Output::new().sharding(&Sharding::replicated()));
        f.sharding_constraint(x, &Sharding::gspmd("{devices=[2]<=[2]}"))
    });
    expect_round_trip(&module, "gspmd");
    let text = module.to_string();
    assert_eq!(text.matches("mhlo.sharding = \"{devices=[2]<=[2]}\"").count(), 2, "{text}");
    assert!(text.contains("mhlo.sharding = \"{replicated}\"") && text.contains("@Sharding"), "{text}");
}

#[test]
fn requested_broadcast() {
    let module = build(|f| {
        let (x, row, column, scalar) = (floats(f, &[2, 3]), floats(f, &[3]), floats(f, &[2, 1]), floats(f, &[]));
        assert!(f.add(x, row).is_err());
        let [a, b] = f.broadcast_shapes([row, column])?;
        assert_eq!(f.ty(a)?, f.ty(b)?);
        f.numpy_broadcasting(true);
        let sum = f.add(f.multiply(x, row)?, f.subtract(column, scalar)?)?;
        let small = f.compare(sum, ComparisonDirection::Lt, scalar)?;
        let error = f.add(x, floats(f, &[4])).unwrap_err();
        assert_eq!(error.op(), Some("stablehlo.add"));
        assert_eq!(error.kind(), stablehlo::ErrorKind::Shape, "{error}");
        f.clamp(scalar, f.select(small, sum, row)?, column)
    });
    assert_eq!(module.funcs[0].results[0].to_string(), "tensor<2x3xf32>");
    expect_round_trip(&module, "broadcast");
}

#[test]
fn attributes_and_other_dialects() {
    let module = build(|f| {
        let x = floats(f, &[4]);
        let y = f.exponential(x)?;
        let mode = "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>";
        f.set_attribute(y, "result_accuracy", Attribute::Other(mode.to_owned()))?;
        assert!(f.set_attribute(y, "result_accuracy", Attribute::Unit).is_err());
        assert!(f.set_attribute(x, "a", Attribute::Unit).is_err());
        f.set_attribute(y, "result_accuracy", Attribute::Other(mode.to_owned()))?;
        // Any op can be added with types that the caller passes.
        let ty = f.ty(y)?;
        f.op(OpKind::Unary(Unary::Sine), &[y], [(*ty).clone()])
    });
    assert!(module.to_string().contains("HIGHEST"));
    expect_round_trip(&module, "attributes");
}

#[test]
fn sharded_operands() {
    let module = ModuleBuilder::new("mesh");
    module.mesh("mesh", &[("x", 2)]).unwrap();
    let main = module
        .function("main", |f| f.all_reduce(floats(f, &[4]), Collective::mesh_axes("mesh", &["x"]), |a, b| f.add(a, b)));
    main.unwrap();
    let module = module.build().unwrap();
    let text = module.to_string();
    assert_eq!(stablehlo::parse(text.clone(), VerifyLevel::FULL).unwrap().to_string(), text);

    let module = ModuleBuilder::new("without_mesh");
    let main = module
        .function("main", |f| f.all_reduce(floats(f, &[4]), Collective::mesh_axes("mesh", &["x"]), |a, b| f.add(a, b)));
    main.unwrap();
    let error = module.build().unwrap_err();
    assert_eq!(error.kind(), stablehlo::ErrorKind::Reference, "{error}");
    assert!(error.location().unwrap().contains("settings.rs:"), "{error}");
}
