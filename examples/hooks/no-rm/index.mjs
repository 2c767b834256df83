// A gate: bash commands that begin with rm need a person. It is only told of calls that its
// "when" matches, so all that is left to do here is to say why.
let input = "";
for await (const part of process.stdin) input += part;
const { tool } = JSON.parse(input);

const commands = tool.arguments.commands.map(({ command }) => command);
const removing = commands.filter((command) => /(^|[;&|()\n])\s*rm(\s|$)/.test(command));
process.stdout.write(
  JSON.stringify({
    decision: "deny",
    reason: `${removing.length} of ${commands.length} commands would remove files; ask first`,
  }),
);
