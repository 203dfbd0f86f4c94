// What kernel-lab uses of wgsl_reflect, internals among them: they are read, replaced on instances, never in the file.

export type Node = { astNodeType: string; line: number; start: number; [name: string]: any };
export class ScalarData {
  constructor(value: number, type: unknown);
}
export class VoidData {
  static readonly void: VoidData;
}
export class WgslExec {
  typeInfo: Record<string, unknown>;
  context: Context;
  evalExpression: (node: Node, context: Context) => unknown;
  execStatement: (node: Node, context: Context) => unknown;
}
export class WgslParser {
  _exec: WgslExec;
  _deferArrayCountEval: unknown;
  parse(text: string): Node[];
  [name: string]: any;
}
export class WgslDebug {
  constructor(text: string);
  _exec: WgslExec;
  createStackFrame(body: Node[], context: Context, parent?: Frame): Frame;
  stepStack(stack: Stack, stepInto: boolean): boolean;
}
export type Variable = { name: string; value: unknown; node: Node | null };
export type Context = {
  parent: Context | null;
  variables: Map<string, Variable>;
  functions: Map<string, { name: string; node: Node }>;
  currentFunctionName: string;
  getVariable(name: string): Variable | null;
  getFunction(name: string): { name: string; node: Node } | null;
  createVariable(name: string, value: unknown, node?: Node): void;
  clone(): Context;
};
export type Command = { line: number; node?: Node; statement?: Node; statements?: any[] };
export type Frame = {
  parent: Frame | null;
  context: Context;
  commands: Command[];
  current: number;
  isAtEnd: boolean;
  isFunctionFrame: boolean;
  parentCallExpr: Node | null;
  getCurrentCommand(): Command | null;
};
export type Stack = { states: Frame[]; isEmpty: boolean; last: Frame | null; pop(): void };
