//! Tests layouts other than row-major on real plugins.

use crate::real::{compile, each_client};
use expect_test::expect;
use pjrt::{Client, ErrorKind, LoadedExecutable};

const X: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

/// Compiles a program that doubles its argument. `parameter` is the attribute dictionary of the parameter, and `result`
/// is that of the output.
fn double(client: &Client, parameter: &str, result: &str) -> LoadedExecutable {
    let text = format!(
        "module {{ func.func @main(%x: tensor<2x3xf32> {parameter}) -> (tensor<2x3xf32> {result}) {{
           %0 = stablehlo.add %x, %x : tensor<2x3xf32>
           return %0 : tensor<2x3xf32>
         }} }}"
    );
    compile(client, &text)
}

const COLUMNS: &str = "{mhlo.layout_mode = \"{0,1}\"}";

#[test]
fn rejects_arguments_of_other_layout() {
    each_client("layouts_execute", |client| {
        let usual = double(client, "", "");
        let gives = double(client, "", COLUMNS);
        let takes = double(client, COLUMNS, "");
        let layout = |program: &LoadedExecutable| program.parameters().unwrap()[0].layout().unwrap().to_string();
        assert_eq!((layout(&usual), layout(&takes)), ("{1,0}".to_owned(), "{0,1}".to_owned()));
        let x = client.buffer_from_host(&X, &[2, 3]).unwrap();
        let columns = gives.execute(&[&x]).unwrap().remove(0);
        assert_eq!(columns.memory_layout().unwrap().unwrap().to_string(), "{0,1}");
        let error = usual.execute(&[&columns]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        expect!["argument 0 has the layout {0,1}, but the program expects {1,0}; compile the program for {0,1}, or produce the argument with {1,0}"]
            .assert_eq(error.message());
        let error = takes.execute(&[&x]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        expect!["argument 0 has the layout {1,0}, but the program expects {0,1}; compile the program for {1,0}, or produce the argument with {0,1}"]
            .assert_eq(error.message());
        let four = takes.execute(&[&columns]).unwrap();
        assert_eq!(four[0].to_host::<f32>().unwrap(), X.map(|x| x * 4.0));
        let two = usual.execute(&[&x]).unwrap();
        assert_eq!(usual.execute(&[&two[0]]).unwrap()[0].to_host::<f32>().unwrap(), X.map(|x| x * 4.0));
    });
}

#[test]
fn converts_results_to_row_major() {
    each_client("layouts_to_host", |client| {
        let gives = double(client, "", COLUMNS);
        let columns = gives.execute(&[&client.buffer_from_host(&X, &[2, 3]).unwrap()]).unwrap().remove(0);
        let expected = X.map(|x| x * 2.0);
        assert_eq!(columns.to_host::<f32>().unwrap(), expected);
        assert_eq!(columns.download().start::<f32>().unwrap().wait().unwrap(), expected);
        assert_eq!(columns.download().array().unwrap().to_vec::<f32>().unwrap(), expected);
        let mut place = [0.0f32; 6];
        columns.download().copy_to(&mut place).unwrap();
        assert_eq!(place, expected);
        // Test an order of three dimensions that is neither row-major nor column-major.
        let text = "module { func.func @main(%x: tensor<2x3x4xi16>)
              -> (tensor<2x3x4xi16> {mhlo.layout_mode = \"{1,2,0}\"}) {
           %0 = stablehlo.add %x, %x : tensor<2x3x4xi16>
           return %0 : tensor<2x3x4xi16>
         } }";
        let x: Vec<i16> = (0..24).collect();
        let outputs = compile(client, text).execute(&[&client.buffer_from_host(&x, &[2, 3, 4]).unwrap()]).unwrap();
        assert_eq!(outputs[0].memory_layout().unwrap().unwrap().to_string(), "{1,2,0}");
        let expected: Vec<i16> = x.iter().map(|x| x * 2).collect();
        assert_eq!(outputs[0].to_host::<i16>().unwrap(), expected);
    });
}
