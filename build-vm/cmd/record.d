build-vm/cmd/record.o: src/cmd/record.c src/cmd/record.h src/sink/sink.h \
 src/engine/engine.h src/probe.h src/record.h src/record.h \
 src/target/tasks.h src/cmd/cmd.h src/util/log.h src/util/parse.h
src/cmd/record.h:
src/sink/sink.h:
src/engine/engine.h:
src/probe.h:
src/record.h:
src/record.h:
src/target/tasks.h:
src/cmd/cmd.h:
src/util/log.h:
src/util/parse.h:
