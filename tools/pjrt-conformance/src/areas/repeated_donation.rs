//! Cases for executions that donate a buffer and also pass it as another argument.

use crate::case::Profiles;
use crate::context::floats;
use crate::raw::execute_keeping;
use crate::stop::Stop;
use crate::suite::Suite;

pub(crate) fn declare(suite: &mut Suite) {
    // The program has four arguments and donates arguments 1 and 2. Each case passes the same buffer at two indices.
    for (name, places) in [("donated_twice", [1usize, 2]), ("read_and_donated", [0, 1]), ("donated_and_read", [2, 3])] {
        suite
            .case(
                format!("buffers.donation.same_buffer[uses={name}]"),
                "XLA: rejects a run that donates a buffer and uses it in another argument, too, with INVALID_ARGUMENT; a \
                 plugin may also copy the buffer",
                "two results in one memory are both wrong",
            )
            .profiles(Profiles::FRAMEWORKS)
            .isolated()
            .check(move |cx| {
                let ty = "tensor<8xf32>";
                let executable = cx.compile(&crate::program::main(
                    &format!(
                        "%a: {ty}, %b: {ty} {{tf.aliasing_output = 0 : i32}}, %c: {ty} {{tf.aliasing_output = 1 : i32}}, %d: {ty}"
                    ),
                    &format!("({ty}, {ty})"),
                    &format!(
                        "  %x = stablehlo.add %a, %b : {ty}\n  %y = stablehlo.add %c, %d : {ty}\n  return %x, %y : {ty}, {ty}"
                    ),
                ))?;
                let shared = cx.floats(&[16.0; 8])?;
                let own = [1.0f32, 2.0, 4.0, 8.0].map(|value| cx.floats(&[value; 8]));
                let mut arguments = Vec::new();
                let mut values = Vec::new();
                for ((at, buffer), value) in own.iter().enumerate().zip([1.0f32, 2.0, 4.0, 8.0]) {
                    let repeated = places.contains(&at);
                    arguments.push(if repeated { &shared } else { buffer.as_ref().map_err(Stop::clone)? });
                    values.push(if repeated { 16.0 } else { value });
                }
                let Ok(outputs) = execute_keeping(&executable, &arguments, 2, &[])? else { return Ok(()) };
                let expected = [values[0] + values[1], values[2] + values[3]];
                for (at, (output, value)) in outputs.iter().zip(expected).enumerate() {
                    if output.wait().is_ok() {
                        ensure!(floats(output)? == [value; 8], "result {at} is wrong");
                    }
                }
                Ok(())
            });
    }
}
