// SPDX-License-Identifier: BSD-2-Clause
/* Presets that are refused, and the words of the refusal. */
#include "cases.h"
#include "preset.h"

/* `problem`: the text after the path: LINE: KEY: WHY. */
static void expect_bad(const char *text, const char *problem)
{
	char line[512];
	int err;

	err = load_text(text);
	snprintf(line, sizeof(line), "inftrace: %s:%s\n", preset_path, problem);
	if (err != -EINVAL || strcmp(said.text, line))
		fail_msg("%s\n%d: %s instead of: %s", text, err, said.text, line);
	probe_table_free(&pt);
}

#define LATE_RULE \
	"\"at return\" is for numbers that are loaded, in functions that return and are not steps"
#define RET_RULE "\"ret\" is for functions that return and are not steps"
#define NAMES_RULE "write: {\"ARG\": \"$ARG\"}, the second a str"

#define TEXT_RULE "must have 1 to 255 bytes, no control characters"
#define PYTHON_BATCH(members) "{'python':'m.f','role':'step',\n'batch':{'function':'m.g'," members "}}"
#define PAIR_RULE "give one of symbol, begin and end, instant, usdt, or python"
#define BYTES_RULE "must be \"ARG * ARG\", a number, and one of an enum with \"bytes\""
#define SIZES_RULE "\"bytes\" must have as many sizes, from 1 to 255, as there are names, and no table_symbol beside it"
#define FIRST "{'symbol':'first','role':'op'},\n" /* so that lines count */

#define NODE(type) "{'instant':'f','role':'op','args':{'a':'" type " arg1'},\n"
#define NODE_PLACES "'bytes':200,'n_sources':2,'sources':184,'view':192,'shape':168,'stride':168"

static const struct {
	const char *text, *problem;
} bads[] = {
	{ "[]", "1: a preset is a JSON object" },
	{ "null", "1: a preset is a JSON object" },
	{ "{}", "1: name: missing" },
	{ "{'name':1}", "1: name: must be a string" },
	{ "{'name':''}", "1: name: " TEXT_RULE },
	{ "{\n'name':'x\\u0007'}", "2: name: " TEXT_RULE },
	{ "{\n'name':'x\\u0000y'}", "2: name: " TEXT_RULE },
	{ "{'name':'x'}", "1: match: missing or not an object" },
	{ "{'name':'x',\n'match':[]}", "2: match: missing or not an object" },
	{ "{'name':'x',\n'match':{}}", "2: mapped: must be an array of globs" },
	{ "{'name':'x','match':{\n'mapped':[]}}", "2: mapped: must be an array of globs" },
	{ "{'name':'x','match':{\n'mapped':['a',1]}}", "2: mapped: must be an array of globs" },
	{ "{'name':'x','match':{\n'mapped':'a'}}", "2: mapped: must be an array of globs" },
	{ "{'name':'x','match':{'mapped':['a'],\n'path':1}}", "2: path: unknown key" },
	{ START "\n'version':'1','probes':[]}", "2: version: must be a number from 0" },
	{ START "'enums':{'version':{'names':[]}},\n'version':'1','probes':[]}", "2: version: must be a number from 0" },
	{ START "\n'version':-1,'probes':[]}", "2: version: must be a number from 0" },
	{ START "\n'version':1e3,'probes':[]}", "2: version: must be a number from 0" },
	{ START "\n'version':99999999999,'probes':[]}", "2: version: must be a number from 0" },
	{ START "\n'checked':'1','probes':[]}", "2: checked: must be an array of strings" },
	{ START "\n'checked':[1],'probes':[]}", "2: checked: must be an array of strings" },
	{ START "\n'probe':[]}", "2: probe: unknown key" },
	{ "{'name':'x','match':{'mapped':['lib*']}}", "1: probes: must be an array" },
	{ START "\n'probes':{}}", "2: probes: must be an array" },
	{ START "\n'probes':null}", "2: probes: must be an array" },
	{ PROBES("1"), "1: probes: each must be an object" },
	{ PROBES(FIRST "null"), "2: probes: each must be an object" },
	/* the line of the probe at fault, not of the first with such a key */
	{ PROBES(FIRST "{" F "},\n{}"), "3: role: missing" },
	{ PROBES(FIRST "{'symbol':'f',\n'role':'opp'}"), "3: role: opp is not a role" },
	{ PROBES(FIRST "{'symbol':'f',\n'role':'OP'}"), "3: role: OP is not a role" },
	{ PROBES(FIRST "{'symbol':'f',\n'role':''}"), "3: role: " TEXT_RULE },
	{ PROBES(FIRST "{'symbol':\n'f','role':['op']}"), "3: role: must be a string" },
	{ PROBES(FIRST "{'symbol':'f'},{'symbol':'g','role':'op'}"), "2: role: missing" },
	{ PROBES(FIRST "{" F ",'lib':'x'}"), "2: lib: unknown key" },
	{ PROBES(FIRST "{'symbol':7,'role':'op'}"), "2: symbol: must be a string" },
	{ PROBES(FIRST "{" F ",'library':null}"), "2: library: must be a string" },
	/* pairs */
	{ PROBES("{'role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{'begin':'f','role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{'end':'f','role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{" F ",'begin':'g'}"), "1: symbol: " PAIR_RULE },
	{ PROBES("{" F ",'end':'g'}"), "1: symbol: " PAIR_RULE },
	{ PROBES("{" F ",'begin':'g','end':'h'}"), "1: symbol: " PAIR_RULE },
	{ PROBES(FIRST "{" F "},\n{" F "}"), "3: symbol: this function has a probe already" },
	{ PROBES("{" F "},\n{'begin':'f','end':'g','role':'op'}"), "2: begin: this function has a probe already" },
	{ PROBES("{'begin':'f','end':'g','role':'op'},\n{'begin':'f','end':'h','role':'op'}"),
		"2: begin: this function has a probe already" },
	{ PROBES("{'begin':'f','end':'g','role':'op'},\n{" F "}"), "2: symbol: this function has a probe already" },
	/* USDT probes */
	{ PROBES("{'usdt':'p','role':'op'}"), "1: usdt: write PROVIDER:NAME" },
	{ PROBES("{'usdt':':n','role':'op'}"), "1: usdt: write PROVIDER:NAME" },
	{ PROBES("{'usdt':['p:n','p:'],'role':'op'}"), "1: usdt: write PROVIDER:NAME" },
	{ PROBES("{'usdt':'usdt:p:n','role':'op'}"), "1: usdt: write PROVIDER:NAME" },
	{ PROBES("{'usdt':[],'role':'op'}"), "1: usdt: must be a name or an array of names" },
	{ PROBES("{'python':'m.f',\n'role':'op'}"), "2: role: a Python function is a step" },
	{ PROBES("{'python':['m.f',''],\n'role':'step'}"), "1: python: a name, and the end of a path, have 1 to 63 bytes" },
	{ PROBES("{'python':'m.f','role':'step',\n'args':{}}"), "1: python: goes with role, name and batch only" },
	{ PROBES("{'symbol':'f','role':'step',\n'batch':{}}"), "2: batch: goes with python only" },
	{ PROBES("{'python':'m.f','role':'step',\n'batch':[]}"), "2: batch: must be an object" },
	{ PROBES(PYTHON_BATCH("'object':'arg1','tokens':'t','total':'n','given':'x'")), "2: given: goes with results only" },
	{ PROBES(PYTHON_BATCH("'object':'arg1','tokens':'t','total':'n','most':'x'")), "2: most: unknown key" },
	{ PROBES(PYTHON_BATCH("'object':'arg1','total':'n','results':'m.h','results_object':'arg1','requests':'r'")), "1: id: missing" },
	{ PROBES(PYTHON_BATCH("'object':'arg1','total':'n','results':'m.h','results_object':'arg1','tokens':'t'")),
		"2: tokens: does not go with results" },
	{ PROBES(PYTHON_BATCH("'object':'arg1','total':'n','results':'m.h'")), "1: results_object: missing" },
	{ PROBES(PYTHON_BATCH("'object':'arg1','total':'n','results':'m.h','results_object':'arg1','decodes':256")),
		"2: decodes: must be a number from 0 to 255" },
	{ PROBES(PYTHON_BATCH("'object':'arg1','tokens':'t'")), "1: total: missing" },
	{ PROBES(PYTHON_BATCH("'object':'arg1','tokens':'t','total':'n','sent':'m.s'")), "1: sent_object: missing" },
	{ PROBES(PYTHON_BATCH("'object':'arg1','tokens':'t','total':'n','sent':'m.s','sent_object':'arg0'")),
		"2: sent_object: must be one of arg1 to arg9" },
	{ PROBES(PYTHON_BATCH("'object':'self','tokens':'t','total':'n'")), "2: object: must be one of arg1 to arg9" },
	{ PROBES(PYTHON_BATCH("'object':'arg1','tokens':'a b','total':'n'")), "2: batch: only ASCII names can be compared" },
	{ PROBES("{'symbol':'f*',\n'unless':'usdt:p:n','role':'op'}"), "2: unless: is for a symbol that is no glob" },
	{ PROBES("{'symbol':'f',\n'unless':'g','role':'op'}"), "2: unless: must be usdt:PROVIDER:NAME" },
	{ PROBES("{'usdt':'p:n','symbol':'f','role':'op'}"), "1: symbol: " PAIR_RULE },
	{ PROBES("{'usdt':'p:n','instant':'f','role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{'usdt':'p:n',\n'role':'step'}"), "2: role: a USDT probe is an instant: no step, barrier, gpu_wait or gc" },
	{ PROBES("{'symbol':'usdt:p:n','role':'op'}"), "1: symbol: a USDT probe has no return: use usdt, or begin and end" },
	{ PROBES("{'begin':'usdt:p','end':'f','role':'op'}"), "1: begin: a USDT probe is usdt:PROVIDER:NAME" },
	{ PROBES("{'begin':'f','end':'usdt:p','role':'op'}"), "1: end: a USDT probe is usdt:PROVIDER:NAME" },
	{ PROBES("{'usdt':'p:n','role':'op','args':{'a':'u8 arg13'}}"),
		"1: a: not an argument of a USDT probe (arg1 to arg12)" },
	/* floats */
	{ PROBES("{" F ",'args':{'a':'f32 arg1'}}"),
		"1: a: floating-point registers cannot be read: an f32 or f64 must be loaded, *(...)" },
	{ PROBES("{" F ",'args':{'a':'f32 *(arg1)'},'when':'a > 1'}"), "1: when: a > 1: an f32 or f64 cannot be compared" },
	{ PROBES("{" F ",'args':{'a':'f64 *(arg1)'},'name':'a == 1 ? x : y'}"),
		"1: name: a == 1 ? x : y: an f32 or f64 cannot be compared" },
	/* arguments and names */
	{ PROBES("{" F ",'args':[]}"), "1: args: must be an object" },
	{ PROBES("{" F ",\n'args':{'a':1}}"), "2: a: must be a string" },
	{ PROBES("{" F ",'args':{\n'a':'u9 arg1'}}"),
		"2: a: not a type (u8..u64, s8..s64, f32, f64, ptr, str or an enum of the preset)" },
	{ PROBES("{" F ",'args':{\n'a':'u8 rdi'}}"), "2: a: not a register (arg1 to arg6, sp)" },
	{ PROBES("{" F ",'args':{'':'u8 arg1'}}"), "1: : an argument's name has 1 to 63 bytes, no control characters" },
	{ PROBES("{" F ",'args':{'a':'u8 sp','b':'u8 sp','c':'u8 sp','d':'u8 sp','e':'u8 "
		 "sp',\n'f':'u8 sp','g':'u8 sp','h':'u8 sp','i':'u8 sp','j':'u8 sp',"
		 "\n'k':'u8 sp'}}"),
		"3: k: more than ten arguments" },
	{ PROBES("{" F ",\n'name':'$a'}"), "2: name: $a: no such argument" },
	{ PROBES("{" F ",'args':{'ab':'u8 arg1'},\n'name':'$a'}"), "2: name: $a: no such argument" },
	{ PROBES("{" F ",'name':'$'}"), "1: name: $: no such argument" },
	{ PROBES("{" F ",'name':'a == 1 ? x : y'}"), "1: name: a == 1 ? x : y: no such argument" },
	{ PROBES("{" F ",'name':'a ? x : y'}"), "1: name: a ? x : y: write: arg == value (or !=, <, >)" },
	{ PROBES("{" F ",'name':'a == b ? x : y'}"), "1: name: a == b ? x : y: no such argument" },
	{ PROBES("{" F ",'name':'a == 1 ? x'}"), "1: name: a == 1 ? x: write: arg == value ? name : name" },
	{ PROBES("{" F ",'name':'a == 1 ? x : y z'}"), "1: name: a == 1 ? x : y z: no such argument" },
	/* conditions, instants, several functions */
	{ PROBES("{" F ",\n'when':'a == 1'}"), "2: when: a == 1: no such argument" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},\n'when':'a'}"), "2: when: a: write: arg == value (or !=, <, >)" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},'when':'a <= 1'}"), "1: when: a <= 1: write: arg == value (or !=, <, >)" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},'when':'a == 1 2'}"), "1: when: a == 1 2: write: arg == value (or !=, <, >)" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},'when':'a == one'}"),
		"1: when: a == one: the value is neither a number nor an argument that is a number" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},'when':'a == 99999999999999999999'}"),
		"1: when: a == 99999999999999999999: the value is neither a number nor an argument that is a number" },
	{ PROBES("{" F ",'when':1}"), "1: when: must be a string" },
	{ PROBES("{" F ",'detail':{'a':'u8 arg1'},\n'when':'a == 1'}"), "2: when: a == 1: no such argument" },
	{ PROBES("{" F ",'detail':{'a':'u8 arg1'},\n'name':'$a'}"), "2: name: $a: no such argument" },
	/* also without --op-detail */
	{ PROBES("{" F ",\n'detail':[]}"), "2: detail: must be an object" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},\n'detail':{'b':'u8 arg2','a':'u8 arg1'}}"),
		"1: a: two arguments with the same name" },
	{ PROBES("{" F ",'args':{'step':'u8 arg1'}}"), "1: step: this name has another meaning in traces and profiles, as have: began_before breakdown_us call faults_minor faults_major lost lost_records migrations "
						       "phase pid step switches switches_voluntary syscalls thread tid ts_us unfinished watched workers" },
	{ PROBES(FIRST "{'symbol':'f','role':'op','detail_only':true,\n'args':{'a':'u8 arg9'}}"),
		"3: a: not a register (arg1 to arg6, sp)" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1 if b > 1',\n'b':'u8 arg1'}}"), "1: a: no such argument" },
	{ PROBES("{" F ",'args':{'b':'u8 arg1',\n'a':'u8 arg1 if b'}}"), "2: a: write: arg == value (or !=, <, >)" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},\n'check':'b > 1'}"), "2: check: no such argument" },
	{ PROBES("{" F ",\n'check':1}"), "2: check: must be a condition, or an array of them" },
	{ PROBES("{" F ",\n'check':['a > 1',1]}"), "2: check: no such argument" },
	{ PROBES("{" F ",'args':{'a':'u8 arg1'},\n'check':['a > 1','a > 1','a > 1','a > 1','a > 1']}"),
		"2: check: more than four checks" },
	{ PROBES("{" F ",\n'graph_launch':1}"), "2: graph_launch: must be true or false" },
	/* bytes */
	{ PROBES("{" F ",'args':{'a':'u32 arg1'},\n'bytes':'a'}"), "2: bytes: " BYTES_RULE },
	{ PROBES("{" F ",'args':{'a':'u32 arg1'},\n'bytes':'a * a'}"), "2: bytes: " BYTES_RULE },
	{ PROBES("{" F ",'args':{'a':'u32 arg1'},\n'bytes':'a * b'}"), "2: bytes: " BYTES_RULE },
	{ PROBES("{" F ",'args':{'a':'u32 arg1'},\n'bytes':1}"), "2: bytes: " BYTES_RULE },
	/* nodes of graphs */
	{ PROBES("{" F ",'args':{'a':'ptr arg1'},\n'node':{}}"), "2: node: is for an instant whose first argument is a ptr" },
	{ PROBES(NODE("u64") "'node':{}}"), "2: node: is for an instant whose first argument is a ptr" },
	{ PROBES(NODE("ptr") "'node':1}"), "2: node: must be an object" },
	{ PROBES(NODE("ptr") "'node':{'a':1}}"), "2: node: has a key that is not known" },
	{ PROBES(NODE("ptr") "'node':{}}"), "1: bytes: must be a number of bytes" },
	{ PROBES(NODE("ptr") "'node':{'bytes':385}}"), "2: bytes: lies outside of the node" },
	{ PROBES(NODE("ptr") "'node':{'bytes':200,'n_sources':11}}"), "2: n_sources: lies outside of the node" },
	{ PROBES(NODE("ptr") "'node':{'bytes':200,'n_sources':2,'sources':185}}"), "2: sources: lies outside of the node" },
	{ PROBES(NODE("ptr") "'node':{'bytes':200,'n_sources':2,'sources':-1}}"), "2: sources: lies outside of the node" },
	{ PROBES(NODE("ptr") "'node':{" NODE_PLACES ",'name':137}}"), "2: name: lies outside of the node" },
	{ PROBES(NODE("ptr") "'node':{" NODE_PLACES ",'name':136}}"),
		"1: op: must be \"ENUM *(arg1+OFFSET)\", a value in the node" },
	{ PROBES(NODE("ptr") "'node':{" NODE_PLACES ",'name':136,'op':'u32 *(arg1)'}}"),
		"2: op: must be \"ENUM *(arg1+OFFSET)\", a value in the node" },
	/* what exists when the function returns, and its name */
	{ PROBES("{" F ",'args':{'a':'u8 arg1 at return'}}"), "1: a: " LATE_RULE },
	{ PROBES("{" F ",'args':{'a':'str *(arg1) at return'}}"), "1: a: " LATE_RULE },
	{ PROBES("{'instant':'f','role':'op','args':{'a':'u8 ret'}}"), "1: a: " RET_RULE },
	{ PROBES("{'symbol':'f','role':'step','args':{'a':'u8 ret'}}"), "1: a: " RET_RULE },
	{ PROBES("{" F ",'args':{'a':'u8 *(ret)'}}"), "1: a: \"ret\" is a whole number or address: nothing is read from there" },
	{ PROBES("{" F ",'args':{'a':'str ret'}}"), "1: a: \"ret\" is a whole number or address: nothing is read from there" },
	{ PROBES("{'instant':'f','role':'op','args':{'a':'u8 *(arg1) at return'}}"), "1: a: " LATE_RULE },
	{ PROBES("{'symbol':'f','role':'step','args':{'a':'u8 *(arg1) at return'}}"), "1: a: " LATE_RULE },
	{ PROBES("{" F ",'args':{'a':'u8 *(arg1) at return'},\n'when':'a == 1'}"),
		"2: when: a == 1: not known before the function returns" },
	{ PROBES("{" F ",\n'names':'a'}"), "2: names: must be {\"ARG\": \"$ARG\"}" },
	{ PROBES("{" F ",\n'names':{}}"), "2: names: must be {\"ARG\": \"$ARG\"}" },
	{ PROBES("{" F ",\n'names':{'a':1}}"), "2: names: must be {\"ARG\": \"$ARG\"}" },
	{ PROBES("{" F ",'args':{'a':'ptr arg1','b':'str arg2'},\n'names':{'a':'b'}}"), "2: names: " NAMES_RULE },
	{ PROBES("{" F ",'args':{'a':'ptr arg1','b':'ptr arg2'},\n'names':{'a':'$b'}}"), "2: names: " NAMES_RULE },
	{ PROBES("{" F ",'args':{'a':'ptr arg1','b':'str arg2'},\n'names':{'b':'$b'}}"), "2: names: " NAMES_RULE },
	{ PROBES("{" F ",'instant':'g'}"), "1: symbol: " PAIR_RULE },
	{ PROBES("{'instant':'f','end':'g','role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{'instant':'f','begin':'g','end':'h','role':'op'}"), "1: role: " PAIR_RULE },
	{ PROBES("{" F ",\n'stand_in':true}"), "2: stand_in: is for the role step" },
	{ PROBES("{" F ",\n'detail_only':1}"), "2: detail_only: must be true or false" },
	{ PROBES("{'role':'op',\n'symbol':[]}"), "2: symbol: must be a name or an array of names" },
	{ PROBES("{'role':'op',\n'symbol':['f',1]}"), "2: symbol: must be a name or an array of names" },
	{ PROBES("{'role':'op',\n'symbol':['f','']}"), "2: symbol: must be a name or an array of names" },
	{ PROBES("{'role':'op',\n'symbol':['f','g','f']}"), "2: symbol: this function has a probe already" },
	{ PROBES("{" F ",'name':'$part'}"), "1: name: $part: write $part0 to $part15" },
	{ PROBES("{" F ",'name':'$part16'}"), "1: name: $part16: write $part0 to $part15" },
	{ PROBES("{" F ",'args':{'a':'str arg1','b':'str arg2',\n'c':'str arg3'}}"), "2: c: more than two strings" },
	/* enums */
	{ START "\n'enums':[],'probes':[]}", "2: enums: must be an object" },
	{ START "'enums':{\n'e':[]},'probes':[]}", "2: e: must be an object" },
	{ START "'enums':{\n'e':{}},'probes':[]}", "2: e: needs an array \"names\"" },
	{ START "'enums':{\n'e':{'names':{}}},'probes':[]}", "2: e: needs an array \"names\"" },
	{ START "'enums':{'e':{'names':[],\n'name':1}},'probes':[]}", "2: name: unknown key" },
	{ START "'enums':{\n'e':{'names':['a','b'],'bytes':[1]}},'probes':[]}", "2: e: " SIZES_RULE },
	{ START "'enums':{\n'e':{'names':['a'],'bytes':[0]}},'probes':[]}", "2: e: " SIZES_RULE },
	{ START "'enums':{\n'e':{'names':['a'],'bytes':[256]}},'probes':[]}", "2: e: " SIZES_RULE },
	{ START "'enums':{\n'e':{'names':['a'],'bytes':['1']}},'probes':[]}", "2: e: " SIZES_RULE },
	{ START "'enums':{\n'e':{'names':['a'],'bytes':[1],'table_symbol':'T'}},'probes':[]}", "2: e: " SIZES_RULE },
	{ START "'enums':{\n'e':{'names':['a',1]}},'probes':[]}",
		"2: e: name 1 must be a string of 1 to 63 bytes, no control characters" },
	{ START "'enums':{\n'e':{'names':['a\\n']}},'probes':[]}",
		"2: e: name 0 must be a string of 1 to 63 bytes, no control characters" },
	/* duplicate keys: readers would take the last */
	{ START "'probes':[],\n'probes':[]}", "2: probes: is given twice" },
	{ "{'name':'x',\n'name':'x','match':{'mapped':['a']},'probes':[]}", "2: name: is given twice" },
	{ PROBES(FIRST "{" F ",\n'role':'step'}"), "3: role: is given twice" },
	{ PROBES("{" F ",'args':{'n':'u8 arg1',\n'm':'u8 arg1','n':'u8 arg2'}}"), "2: n: is given twice" },
	{ START "'enums':{'e':{'names':[]},\n'e':{'names':['a']}},'probes':[]}", "2: e: is given twice" },
	{ START "'probes':[],\n'prob\\u0065s':[]}", "2: probes: is given twice" },
};

TEST(test_bad)
{
	for (size_t i = 0; i < ARRAY_SIZE(bads); i++)
		expect_bad(bads[i].text, bads[i].problem);
}

/* Not JSON at all. */
TABLE_TEST(test_not_json)
{
	static const char *const texts[] = { "", " ", "\n\n", "{", "}", "x", "{'name' 'x'}",
		"{'name':'x',}", "{name:'x'}", "{'name':'x'} x", "{'name':'x'}{}", "/* */{}",
		"{'name':'\xff'}", "{'name':'\xed\xa0\x80'}", "{'name':'\\x'}", "{'name':'\\u12'}",
		"{'name':tru}" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char line[80];

		if (load_text(texts[i]) != -EINVAL)
			fail_msg("%s: accepted", texts[i]);
		snprintf(line, sizeof(line), "inftrace: %s:%d: ", preset_path, i == 2 ? 3 : 1);
		assert_memory_equal(said.text, line, strlen(line));
	}
	assert_int_equal(load_bytes("{}\0{}", 5), -EINVAL);
	assert_int_equal(load_bytes("\n{\0}", 4), -EINVAL);
	assert_non_null(strstr(said.text, ":2: "));
}

/* A preset with every feature. */
static const char everything[] =
	"{'name':'x','version':1,'checked':['v1'],'match':{'mapped':['lib*','b']},\n"
	"'enums':{'e':{'table_symbol':'T','names':['a','b']}},'probes':[\n"
	"{'library':'l*','symbol':'f','role':'step','args':{'n':'s32 *(sp+8)'},'name':'n == 1 ? a "
	": b'},\n"
	"{'begin':'g','end':'h','role':'op','args':{'o':'e *(*(arg2+8)+0x10)'},'name':'$o'},\n"
	"{'symbol':'h','role':'barrier'}]}";

/* Cut anywhere, it is refused with its one line. */
TEST(test_truncated)
{
	char text[sizeof(everything)];
	size_t len;

	strcpy(text, everything);
	len = put_quotes(text);
	expect_good(everything);
	for (size_t n = 0; n < len; n += cases(1, 4)) {
		assert_int_equal(load_bytes(text, n), -EINVAL);
		assert_int_equal(pt.n, 0);
		probe_table_free(&pt);
	}
}

/* With any byte changed it is good or refused with one line; load_bytes() checks that, the sanitizers and valgrind the rest. */
TEST(test_changed)
{
	static const char bytes[] = { 0, '"', '[', '}', '\\', '\n', '0', '\xff' };
	char text[sizeof(everything)];
	size_t len;

	strcpy(text, everything);
	len = put_quotes(text);
	for (size_t i = 0; i < len; i += cases(1, 7)) {
		char was = text[i];

		for (size_t k = i % 3; k < sizeof(bytes); k += 3) {
			int err;

			text[i] = bytes[k];
			err = load_bytes(text, len);
			assert_true(!err || err == -EINVAL);
			probe_table_free(&pt);
		}
		text[i] = was;
	}
}

static void expect_refused(const char *text, const char *why)
{
	assert_int_equal(load_text(text), -EINVAL);
	if (!strstr(said.text, why))
		fail_msg("'%s' instead of '%s'", said.text, why);
	probe_table_free(&pt);
}

TEST(test_hostile)
{
	static const struct {
		const char *before, *part;
		size_t n;
		const char *behind, *why;
	} texts[] = {
		{ START "'checked':", "[", 100000, "", "" },
		{ START "'checked':", "{'a':", 100000, "", "" },
		{ START "'checked':", "[", 9, "]]]]]]]]],'probes':[]}", "" },
		{ "{'", "k", 100000, "':1}", "kkk...: unknown key" },
		{ "{'k", "\x1b[31m", 1, "':1}", "control byte 0x1b in a string" },
		{ "{'k", "\\u001b[31m\\u0007\\u007f", 1, "':1}", "\\x1b[31m\\x07\\x7f: unknown key" },
		{ "{'", "k%d':1,'", 50000, "':1}", "k0: unknown key" },
		{ "{'name':'", "n", 256, "'}", TEXT_RULE },
		{ PROBES("{'symbol':'f','role':'"), "r", 200, "'}]}", "rrr... is not a role" },
		{ PROBES("{'role':'op','symbol':'"), "s", 256, "'}]}", TEXT_RULE },
		{ PROBES("{'role':'op','symbol':'f','name':'"), "?", 200, "'}]}", "???...: write:" },
		{ PROBES("{'role':'op','symbol':'f','name':'"), "%%s%%n?", 20, "'}]}", "%s%n?" },
		{ PROBES("{'role':'op','symbol':'f','args':{'"), "a", 64, "':'u8 arg1'}}]}", "1 to 63" },
		{ PROBES("{'role':'op','symbol':'f','args':{'a':'u8 "), "*(", 50000, "'}}]}", "more than three loads" },
		{ PROBES("{'role':'op','symbol':'f','args':{'a':'"), " ", 50000, "'}}]}", "not a type" },
		{ START "'enums':{'e':{'names':['", "e", 64, "']}},'probes':[]}", "name 0 must be" },
		{ START "'enums':{'e':{'names':['a'", ",'a'", 4096, "]}},'probes':[]}", "more than 4096 names" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char before[256], *text;

		/* PROBES() closes the array: open it again */
		snprintf(before, sizeof(before), "%s", texts[i].before);
		if (strlen(before) > 2 && !strcmp(before + strlen(before) - 2, "]}"))
			before[strlen(before) - 2] = 0;
		text = repeat(before, texts[i].part, texts[i].n, texts[i].behind);
		expect_refused(text, texts[i].why);
		test_free(text);
	}
}

/* The largest that is read, and one byte more. */
TABLE_TEST(test_size)
{
	static const char text[] = "{\"name\":\"x\",\"match\":{\"mapped\":[\"a\"]},\"probes\":[]}";
	size_t max = 1 << 20;
	char *big = test_malloc(max + 1);

	memset(big, ' ', max + 1);
	memcpy(big + max - strlen(text), text, strlen(text));
	assert_int_equal(load_bytes(big, max), 0);
	assert_int_equal(load_bytes(big, max + 1), -EFBIG);
	test_free(big);
}

/* As many probes as the kernel's map holds, and one more. */
TABLE_TEST(test_too_many)
{
	char *text;

	text = repeat(
		START "'probes':[{" F "}", ",\n{'symbol':'f%d','role':'op'}", SPECS_MAX - 1, "]}");
	load_good(text);
	assert_int_equal(pt.n, SPECS_MAX);
	assert_string_equal(pt.specs[SPECS_MAX - 1].symbol, "f4094");
	test_free(text);
	assert_int_equal(load_text(PROBES("{" F "}")), -EINVAL);
	stderr_grab_begin(&said);
	assert_int_equal(probe_table_add_option(&pt, "libx:f"), -EINVAL);
	stderr_grab_end(&said);
	assert_one_line(said.text);
	assert_int_equal(pt.n, SPECS_MAX);
}

RUN_TESTS(make_preset_file, NULL)
